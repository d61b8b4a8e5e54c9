"""The node's own record: epoch, heartbeat, journal, results, highest link token."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import uuid
from typing import Any, Dict, List, Optional, Set, Tuple

from workers.agent import clock
from workers.agent.files import read_json, read_text, write_all, write_atomic, write_json
from workers.agent.paths import Paths

_HEARTBEAT_BYTES = 256


class Record:
    """Thread-safe; what it says survives a SIGKILL, and what is marked durable a power cut."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._lock = threading.Lock()
        paths.make()
        self.epoch = self._load_epoch()
        self.last_alive: Dict[str, Any] = read_json(self._path("heartbeat")) or {}
        self._journaled: Set[Tuple[str, str, str, int]] = set()
        self._starts: Dict[Tuple[str, str], int] = {}
        self._load_journal()
        self._journal = os.open(self._path("journal"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._heartbeat = os.open(self._path("heartbeat"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def beat(self) -> Dict[str, Any]:
        """Put the clocks on the disk and return them; after a power cut `last_alive` is the last one."""
        now = clock.now()
        # One small block, overwritten in place: a torn write can't happen within a sector.
        os.pwrite(self._heartbeat, json.dumps(now).encode().ljust(_HEARTBEAT_BYTES), 0)
        os.fdatasync(self._heartbeat)
        return now

    def journal(self, event: str, attempt: str, container: str, **members: Any) -> None:
        """Note a container's create, start or exit, once per event, container and process."""
        key = (event, attempt, container, int(members.get("pid", 0)))
        with self._lock:
            # A container found ended has no process any more, but its start may stand here already.
            if key in self._journaled or (not key[3] and any(known[:3] == key[:3] for known in self._journaled)):
                return
            line = {"event": event, "attempt": attempt, "container": container, **clock.now(), **members}
            write_all(self._journal, json.dumps(line).encode() + b"\n")
            os.fdatasync(self._journal)
            self._remember(line)

    def start_of(self, attempt: str, container: str) -> Optional[int]:
        """When the container started by the monotonic clock, as first noted; None when no start is noted."""
        return self._starts.get((attempt, container))

    def removed(self, attempt: str) -> bool:
        """True when this attempt was here and is gone for good."""
        return ("remove", attempt, "", 0) in self._journaled

    def accept_token(self, token: int) -> bool:
        """True when no greater link token was ever seen; remembers it."""
        with self._lock:
            highest = int(read_text(self._path("link_token"), "0").strip() or 0)
            if token < highest:
                return False
            if token > highest:
                write_atomic(self._path("link_token"), str(token).encode(), durable=True)
            return True

    def save_result(self, result: Dict[str, Any]) -> None:
        """Keep a result until the portal acknowledges it."""
        write_json(self._result(result["id"]), result)

    def result(self, op: str) -> Optional[Dict[str, Any]]:
        """The kept result of an operation."""
        value = read_json(self._result(op))
        return value if isinstance(value, dict) else None

    def results(self) -> List[Dict[str, Any]]:
        """All kept results."""
        names = [name for name in os.listdir(self._paths.results) if not name.endswith(".new")]
        found = [read_json(os.path.join(self._paths.results, name)) for name in sorted(names)]
        return [value for value in found if isinstance(value, dict)]

    def forget_result(self, op: str) -> None:
        """The portal has it."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._result(op))

    def attempt_folder(self, attempt: str) -> str:
        """Where an attempt's spec, state and spools lie."""
        return os.path.join(self._paths.attempts, attempt)

    def attempt_ids(self) -> List[str]:
        """Every attempt on record; half-made folders of a power cut are deleted."""
        found = []
        for name in sorted(os.listdir(self._paths.attempts)):
            if os.path.exists(os.path.join(self._paths.attempts, name, "state.json")):
                found.append(name)
            else:
                shutil.rmtree(os.path.join(self._paths.attempts, name), ignore_errors=True)
        return found

    def _path(self, name: str) -> str:
        return os.path.join(self._paths.record, name)

    def _result(self, op: str) -> str:
        # Hashed names: an id is the portal's text, not a path.
        return os.path.join(self._paths.results, uuid.uuid5(uuid.NAMESPACE_OID, op).hex)

    def _load_epoch(self) -> str:
        text = read_text(self._path("epoch")).strip()
        if not text:
            text = uuid.uuid4().hex
            write_atomic(self._path("epoch"), text.encode(), durable=True)
        return text

    def _load_journal(self) -> None:
        for line in read_text(self._path("journal")).splitlines():
            try:
                self._remember(json.loads(line))
            except (ValueError, KeyError, TypeError):
                continue  # the last line of a power cut

    def _remember(self, line: Dict[str, Any]) -> None:
        attempt, container = line["attempt"], line["container"]
        self._journaled.add((line["event"], attempt, container, int(line.get("pid", 0))))
        if line["event"] == "start":
            self._starts.setdefault((attempt, container), int(line.get("started_mono_ns", 0)))
