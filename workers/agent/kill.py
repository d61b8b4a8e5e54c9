"""A bounded ladder: the stop signal, the grace, KILL, KILL for each process, then hopeless."""

from __future__ import annotations

import os
import signal
import time

from workers.agent.files import read_text
from workers.agent.process import ProcessId

_KILL_WAIT_S = 10.0
_AGAIN_S = 60.0


class KillLadder:
    """Call step() whenever its last answer has passed; it never waits itself."""

    def __init__(self, process: ProcessId, stop_signal: int) -> None:
        self._process = process
        self._stop_signal = stop_signal
        self._asked = False
        self._kills = 0
        self._next = 0.0

    @property
    def hopeless(self) -> bool:
        """True when even the second round of KILL changed nothing."""
        return self._kills > 2

    def step(self, kill_mono_ns: int) -> float:
        """Do what is due and return the seconds until the next step; `kill_mono_ns` is when the grace ends."""
        if not self._asked:
            self._asked = True
            self._process.signal(self._stop_signal)
        left = (kill_mono_ns - time.monotonic_ns()) / 1e9
        if left > 0:
            return left
        if time.monotonic() >= self._next:
            self._kill()
        return max(0.01, self._next - time.monotonic())

    def _kill(self) -> None:
        self._kills += 1
        self._process.signal(signal.SIGKILL)
        if self._kills > 1:
            for pid in _cgroup_members(self._process.pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        self._next = time.monotonic() + (_AGAIN_S if self.hopeless else _KILL_WAIT_S)


def _cgroup_members(pid: int) -> "list[int]":
    """Every process in the container's own cgroup; none when it is not one of a container."""
    for line in read_text(f"/proc/{pid}/cgroup").splitlines():
        hierarchy, names, path = [*line.split(":", 2), "", ""][:3]
        if "libpod-" not in path and "docker" not in path:
            continue
        if names == "pids":
            return _pids(f"/sys/fs/cgroup/pids{path}/cgroup.procs")
        if hierarchy == "0" and os.path.exists(f"/sys/fs/cgroup{path}/cgroup.procs"):
            return _pids(f"/sys/fs/cgroup{path}/cgroup.procs")
    return []


def _pids(path: str) -> "list[int]":
    return [int(word) for word in read_text(path).split()]
