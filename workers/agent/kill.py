"""A bounded ladder: the stop signal, the grace, KILL, KILL for each process, then hopeless."""

from __future__ import annotations

import contextlib
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
        self._deaf = False
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
            self._deaf = not self._ask()
        left = 0.0 if self._deaf else (kill_mono_ns - time.monotonic_ns()) / 1e9
        if left > 0:
            return left
        if time.monotonic() >= self._next:
            self._kill()
        return max(0.01, self._next - time.monotonic())

    def _ask(self) -> bool:
        """Send the stop signal; False when nobody in the container could ever act on it.

        The kernel drops a signal that a container's first process does not catch (`sleep`, `python train.py`), where
        any other process would just end. So then all processes are asked, and when none of them catches it either,
        waiting for the grace would be in vain.
        """
        members = _cgroup_members(self._process.pid)
        if not members or catches(self._process.pid, self._stop_signal):
            self._process.signal(self._stop_signal)
            return True
        listening = [pid for pid in members if catches(pid, self._stop_signal)]
        _signal_all(members, self._stop_signal)
        return bool(listening)

    def _kill(self) -> None:
        self._kills += 1
        self._process.signal(signal.SIGKILL)
        if self._kills > 1:
            _signal_all(_cgroup_members(self._process.pid), signal.SIGKILL)
        self._next = time.monotonic() + (_AGAIN_S if self.hopeless else _KILL_WAIT_S)


def catches(pid: int, number: int) -> bool:
    """True when the process has a handler for the signal (the bit mask SigCgt of /proc/PID/status)."""
    for line in read_text(f"/proc/{pid}/status").splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def _signal_all(pids: "list[int]", number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


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
