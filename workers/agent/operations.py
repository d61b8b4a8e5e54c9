"""What each operation of the portal does; every one may come twice."""

from __future__ import annotations

import os
import tempfile
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

from workers.agent import spec as specs
from workers.agent.attempt import Attempt
from workers.agent.causes import explain
from workers.agent.holder import release_strays
from workers.agent.inputs import drop_unused
from workers.agent.monitor import Monitor
from workers.agent.process import run
from workers.agent.spool import Spool
from workers.agent.starting import Node

_IMAGE_TIMEOUT_S = 30.0

Args = Dict[str, Any]


class RefusedError(Exception):
    """An operation is refused; `code` is one of docs/protocol.md."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Operations:
    """The attempts of this node, and the operations on them and on the node."""

    # These only write a few bytes and must keep the order in which they come.
    ORDERED = ("attempt_start", "attempt_stop")

    def __init__(self, node: Node, monitor: Monitor) -> None:
        self._node = node
        self._monitor = monitor
        self._lock = threading.Lock()
        # Replaced, never changed: the link's writer reads it while others hold the lock and wait for the writer.
        self._attempts: Dict[str, Attempt] = {}
        self._table: Dict[str, Callable[[Args, float], Dict[str, Any]]] = {
            "noop": lambda args, deadline_s: {},
            "inventory": lambda args, deadline_s: monitor.inventory(deadline_s),
            "attempt_start": self._start,
            "attempt_stop": self._stop,
            "attempt_remove": self._remove,
            "image_present": self._image_present,
            "file_present": self._file_present,
        }

    def recover(self) -> None:
        """Go on with everything that the record knows."""
        self._attempts = {name: Attempt(self._node, name) for name in self._node.record.attempt_ids()}
        live = [attempt for attempt in self.attempts() if not attempt.state.ended]
        release_strays(self._node.paths.fifos, [attempt.state.process("holder") for attempt in live])
        for attempt in self.attempts():
            attempt.begin()

    def attempts(self) -> List[Attempt]:
        """Every attempt on record."""
        return list(self._attempts.values())

    def attempt(self, name: str) -> Optional[Attempt]:
        """An attempt on record."""
        return self._attempts.get(name)

    def streams(self) -> List[Tuple[str, int, Spool]]:
        """Every stream on this node: (attempt, stream, spool)."""
        return [(one.id, number, spool) for one in self.attempts() for number, spool in list(one.spools.items())]

    def busy(self) -> Dict[str, str]:
        """{container id: attempt} of what runs."""
        running = [one for one in self.attempts() if one.state["state"] in ("running", "stuck")]
        return {str(one.state["container_id"]): one.id for one in running}

    def carry_out(self, kind: str, args: Args, deadline_s: float) -> Dict[str, Any]:
        """Do it and return the result's data; raises RefusedError."""
        operation = self._table.get(kind)
        if operation is None:
            raise RefusedError("unknown_kind", f"this agent knows no operation {kind!r:.40}")
        try:
            return operation(args, deadline_s)
        except specs.ArgsError as error:
            raise RefusedError("bad_args", str(error)) from None

    def _start(self, args: Args, deadline_s: float) -> Dict[str, Any]:
        spec = specs.attempt_spec(args)
        name = spec["attempt_id"]
        with self._lock:
            attempt = self._attempts.get(name)
            if attempt is None:
                if self._node.record.removed(name):
                    raise RefusedError("removed", "this attempt has ended and was removed")
                attempt = Attempt(self._node, name)
                attempt.accept(spec)
                self._attempts = {**self._attempts, name: attempt}
        if attempt.state["job"] is None:
            raise RefusedError("cancelled", "a stop came before the start")
        return {"accepted": True, "state": attempt.state["state"]}

    def _stop(self, args: Args, deadline_s: float) -> Dict[str, Any]:
        name, grace_s, reason = specs.attempt_id(args), args.get("grace_s"), args.get("reason")
        if isinstance(grace_s, bool) or not isinstance(grace_s, (int, float)) or not 0 <= grace_s <= 10**6:
            raise specs.ArgsError("grace_s must be a number of seconds")
        if not isinstance(reason, str):
            raise specs.ArgsError("reason must be a string")
        with self._lock:
            attempt = self._attempts.get(name)
            if attempt is None:
                if self._node.record.removed(name):
                    return {"accepted": True, "state": "removed"}
                attempt = Attempt(self._node, name)
                attempt.bury(reason)
                self._attempts = {**self._attempts, name: attempt}
        if not attempt.state.ended:
            attempt.stop(grace_s, reason)
        return {"accepted": True, "state": attempt.state["state"]}

    def _remove(self, args: Args, deadline_s: float) -> Dict[str, Any]:
        name = specs.attempt_id(args)
        attempt = self.attempt(name)
        if attempt is None:
            return {"removed": True}
        if not attempt.state.ended:
            raise RefusedError("not_ended", f"the attempt is {attempt.state['state']}: stop it first")
        if not attempt.acknowledged():
            raise RefusedError("not_acknowledged", "the portal has not acknowledged its statuses and bytes")
        with self._lock:
            if name not in self._attempts:
                return {"removed": True}  # another operation is at it
            self._attempts = {key: value for key, value in self._attempts.items() if key != name}
        try:
            attempt.remove()
        except OSError as error:
            with self._lock:
                self._attempts = {**self._attempts, name: attempt}
            raise RefusedError("runtime_failed", str(error)) from None
        self._node.record.journal("remove", name, "")
        drop_unused(self._node.paths.files)
        return {"removed": True}

    def _image_present(self, args: Args, deadline_s: float) -> Dict[str, Any]:
        command = self._node.runtime.image_exists(specs.image(args))
        with tempfile.TemporaryDirectory(dir=self._node.paths.run) as folder:
            outcome = run(command, folder, "image", timeout_s=_IMAGE_TIMEOUT_S)
        if outcome.rc not in (0, 1):
            raise RefusedError("runtime_failed", explain(outcome, "runtime_failed").message)
        return {"present": outcome.rc == 0}

    def _file_present(self, args: Args, deadline_s: float) -> Dict[str, Any]:
        path = os.path.join(self._node.paths.files, specs.sha256(args))
        return {"present": os.path.isfile(path), "path": path}
