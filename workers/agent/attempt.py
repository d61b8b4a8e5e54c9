"""One attempt's life on this node: from its spec to a complete, acknowledged record."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from typing import Any, Dict, Optional

from workers.agent import clock
from workers.agent.container import ContainerCalls, signal_name
from workers.agent.files import read_json, read_text, write_json, written_ns
from workers.agent.holder import hold, release
from workers.agent.kill import KillLadder
from workers.agent.oom import killed_for_memory
from workers.agent.outputs import spool_outputs
from workers.agent.podman import Container
from workers.agent.process import ProcessId, Wake
from workers.agent.pump import LogPump, open_fifo
from workers.agent.spool import Spool
from workers.agent.starting import Node, Start, StartCancelledError, StartError
from workers.agent.state import AttemptState
from workers.agent.times import rfc3339_ns

log = logging.getLogger("berth.attempt")

_STREAMS = ("log", "outputs")
_FINISH_AGAIN_S = 30.0


class Attempt:
    """Converges in its own thread from whatever the record says; may be made again after any kill."""

    def __init__(self, node: Node, attempt: str) -> None:
        self.id = attempt
        self._node = node
        self._folder = node.record.attempt_folder(attempt)
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        self.state = AttemptState(self._folder, node.announce)
        self.spools: Dict[int, Spool] = {}
        self._resumed = self.state["state"] is not None
        self._spec: Optional[Dict[str, Any]] = read_json(os.path.join(self._folder, "spec.json"))
        self._fifo = os.path.join(node.paths.fifos, attempt)
        self._wake = Wake()
        self._calls = ContainerCalls(node.runtime, attempt, self._folder, self.state, self._wake)
        self._pump: Optional[LogPump] = None
        self._truncated = False
        self._thread: Optional[threading.Thread] = None

    # -- called by operations ------------------------------------------------------------------------------------

    def accept(self, spec: Dict[str, Any]) -> None:
        """Put the spec on the disk and begin."""
        write_json(os.path.join(self._folder, "spec.json"), spec, durable=True)
        self._spec = spec
        self.state.report("preparing", job=spec["job_id"], boot_id=clock.boot_id())
        self.begin()

    def bury(self, reason: str) -> None:
        """A stop for an attempt never seen: remember it, so that a late start is refused."""
        self.state.report("cancelled", boot_id=clock.boot_id(), data={"reason": reason, "streams": {}})

    def begin(self) -> None:
        """Offer the spools and converge in a thread unless it has ended."""
        if self._spec is None:
            return
        self.spools = {n: Spool(os.path.join(self._folder, name)) for n, name in enumerate(_STREAMS)}
        if self.state.ended:
            self._rest()
        else:
            self._thread = threading.Thread(target=self._run, args=(self._spec,), name=self.id[:8], daemon=True)
            self._thread.start()

    def stop(self, grace_s: float, reason: str) -> None:
        """Ask for the end; a second, more urgent stop shortens the first."""
        earlier = self.state["stop"]
        deadline = time.monotonic_ns() + int(grace_s * 1e9)
        if earlier is None or deadline < earlier["kill_mono_ns"]:
            self.state.update(stop={"reason": reason, "kill_mono_ns": deadline}, durable=True)
        self._wake.set()

    def summary(self) -> Dict[str, Any]:
        """The line of this attempt in the agent's hello."""
        streams = {str(n): {"first": s.first, "length": s.length, "acked": s.acked} for n, s in self.spools.items()}
        named = {name: self.state[name] for name in ("state", "seq", "job", "container_id")}
        return {"attempt": self.id, **named, "streams": streams}

    def acknowledged(self) -> bool:
        """True when the portal has every status and every byte."""
        return self.state.acknowledged and all(spool.acked >= spool.length for spool in self.spools.values())

    def remove(self) -> None:
        """Leave nothing of an ended attempt; raises OSError when the runtime can't remove the container."""
        if self._thread is not None:
            self._thread.join(10)
        if self._spec is not None:
            self._calls.remove(self._spec)
        shutil.rmtree(self._folder)

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self, spec: Dict[str, Any]) -> None:
        try:
            state, data = self._converge(spec)
        except StartError as error:
            state, data = "failed", {"stage": error.stage, **error.fault._asdict()}
        except StartCancelledError:
            state, data = "cancelled", {"reason": self.state["stop"]["reason"]}
        except Exception as error:
            log.exception("attempt %s", self.id)
            state, data = "failed", {"stage": "agent", "fault": "node", "code": "agent_error", "message": repr(error)}
        while not self.state.ended:
            try:
                self._finish(spec, state, data)
            except Exception:
                log.exception("attempt %s can't be finished now", self.id)  # a full disk, most likely
                time.sleep(_FINISH_AGAIN_S)
        self._rest()

    def _converge(self, spec: Dict[str, Any]) -> "tuple[str, Dict[str, Any]]":
        """Bring the attempt to its end from wherever it is; returns the end's state and members."""
        if self.state["boot_id"] != clock.boot_id():
            return "lost", self._loss("reboot", self._node.record.last_alive)
        self._start_pump(spec)
        if self.state["exit"] is None:
            if self.state["process"] is None:
                start = Start(self._node, self.id, self._folder, spec, self.state, self._wake)
                start.prepare(self._fifo)
                self._adopt(start.start(resumed=self._resumed), start.mounts.pid_file)
            watched = self._watch(spec)
            found = self._calls.settled()
            if found is None:
                return "lost", self._loss("container_gone", clock.now() if watched else self._node.record.last_alive)
            self._note_exit(found, time.monotonic_ns() if watched else None)
        return "exited", self._exit()

    def _adopt(self, found: Optional[Container], pid_file: str) -> None:
        """Remember the container's process; it may have ended already."""
        # A pid file is only believed right after the start: later the number may be another process's.
        pid = found.pid if found is not None else int(read_text(pid_file, "0").strip() or 0)
        process = ProcessId.of(pid) if pid else None
        now = clock.now()
        # The runtime writes the pid file as the process begins; its own command returns much later (0.1 s here).
        begun = rfc3339_ns(found.started_at) if found is not None else written_ns(pid_file)
        container = self.state["container_id"]
        # When an agent before us noted the start, that note is what is metered.
        noted = self._node.record.start_of(self.id, container)
        seen = now["mono_ns"] - (max(0, now["utc_ns"] - begun) if begun else 0)
        started = seen if noted is None else noted
        times = {"started_mono_ns": started, "started_utc_ns": now["utc_ns"] - (now["mono_ns"] - started)}
        self._node.record.journal("start", self.id, container, pid=pid, started_mono_ns=started)
        self._node.failpoints.reach("after_start", self.id)
        kept = list(process) if process is not None else [0, 0]
        self.state.report("running", data={**times, "container_id": container}, process=kept, **times)

    def _watch(self, spec: Dict[str, Any]) -> bool:
        """Wait for the container's end, carrying out stops and the time limit; False when it had ended before."""
        process = ProcessId(*self.state["process"])
        watched = process.alive()
        ladder: Optional[KillLadder] = None
        ended = not watched
        while not ended:
            self._note_time_limit(spec)
            if self.state["stop"] is not None and ladder is None:
                ladder = KillLadder(process, self._calls.stop_signal())
            timeout = self._time_left(spec) if ladder is None else ladder.step(self.state["stop"]["kill_mono_ns"])
            if ladder is not None and ladder.hopeless and self.state["state"] != "stuck":
                self.state.report("stuck", data={"message": "the container can't be killed: the node needs a reboot"})
            ended = process.wait(self._wake, timeout)
        return watched

    def _note_time_limit(self, spec: Dict[str, Any]) -> None:
        left = self._time_left(spec)
        if left is not None and left <= 0:
            self.state.update(timed_out=True)
            self.stop(spec["stop_grace_s"], "time_limit")

    def _time_left(self, spec: Dict[str, Any]) -> Optional[float]:
        limit = spec["time_limit_s"]
        if not limit or self.state["timed_out"]:
            return None
        return float((self.state["started_mono_ns"] + limit * 1e9 - time.monotonic_ns()) / 1e9)

    def _note_exit(self, found: Container, seen_ns: Optional[int]) -> None:
        """Keep how and when it ended: by the runtime's own times when nobody watched."""
        started = self.state["started_mono_ns"]
        begun, finished = rfc3339_ns(found.started_at), rfc3339_ns(found.finished_at)
        now = time.monotonic_ns()
        by_runtime = started + max(0, finished - begun) if begun and finished else now
        ended = min(now, by_runtime, seen_ns if seen_ns is not None else now)
        self._node.record.journal("exit", self.id, found.id, exit_code=found.exit_code, ended_mono_ns=ended)
        oom = found.oom or (found.exit_code != 0 and killed_for_memory(found.id))
        exit_ = {"exit_code": found.exit_code, "oom": oom, "ended_mono_ns": ended}
        exit_.update(ended_utc_ns=time.time_ns() - (now - ended), ran_ns=ended - started)
        self.state.update(exit=exit_, durable=True)

    def _exit(self) -> Dict[str, Any]:
        stop = self.state["stop"]
        return {
            **self.state["exit"],
            "signal": signal_name(self.state["exit"]["exit_code"]),
            "timed_out": bool(self.state["timed_out"]),
            "stopped": stop["reason"] if stop is not None else None,
            "started_mono_ns": self.state["started_mono_ns"],
        }

    def _loss(self, reason: str, alive: Dict[str, Any]) -> Dict[str, Any]:
        """Lost: it ran until its exit if that was seen before the node died, else until the last proof of life."""
        started, exit_ = self.state["started_mono_ns"], self.state["exit"]
        known = started is not None and alive.get("boot_id") == self.state["boot_id"]
        lived = max(0, alive["mono_ns"] - started) if known else 0
        return {
            "reason": reason,
            "last_alive_mono_ns": alive.get("mono_ns"),
            "last_alive_utc_ns": alive.get("utc_ns"),
            "lost_boot_id": self.state["boot_id"],
            "ran_ns": exit_["ran_ns"] if exit_ is not None else lived,
        }

    # -- the end ---------------------------------------------------------------------------------------------------

    def _finish(self, spec: Dict[str, Any], state: str, data: Dict[str, Any]) -> None:
        """Spool everything, give back what the attempt held, then report its end."""
        truncated = {0: self._seal_log(), 1: False}
        if state in ("exited", "lost"):
            truncated[1] = self._seal_outputs(spec)
        streams = {
            str(n): {"length": spool.length, "sha256": spool.sha256(), "truncated": truncated[n]}
            for n, spool in self.spools.items()
        }
        holder = self.state.process("holder")
        if holder is not None:
            release(holder)
        for path in (self._fifo, os.path.join(self._folder, "env")):
            if os.path.exists(path):
                os.unlink(path)
        if state == "exited":
            self._node.failpoints.reach("before_exit_report", self.id)
        self.state.report(state, data={**data, "streams": streams})
        self._node.bytes_ready()

    def _rest(self) -> None:
        """An ended attempt only answers and sends: it holds no descriptors."""
        for spool in self.spools.values():
            spool.close()
        self._wake.close()

    def _seal_log(self) -> bool:
        pump, self._pump = self._pump, None
        if pump is not None:
            pump.finish()
            self._truncated = pump.truncated
        return self._truncated

    def _seal_outputs(self, spec: Dict[str, Any]) -> bool:
        folder = os.path.join(self._folder, "out")
        if not os.path.isdir(folder):
            return False
        self.spools[1].clear()  # an earlier agent may have written half of it; the same bytes come again
        return not spool_outputs(folder, self.spools[1], spec["outputs_limit_bytes"])

    def _start_pump(self, spec: Dict[str, Any]) -> None:
        fifo = open_fifo(self._fifo)
        holder = self.state.process("holder")
        if holder is None or not holder.alive():
            holder = hold(fifo)
            self.state.update(holder=list(holder) if holder is not None else None)
        self._pump = LogPump(fifo, self.spools[0], spec["log_limit_bytes"], self._node.bytes_ready)
        self._pump.start()
