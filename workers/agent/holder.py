"""A tiny process per attempt that keeps its FIFO open besides the agent.

Without it, what a container wrote last would vanish with the container's exit while no agent runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Iterable, List, Optional

from workers.agent.process import ProcessId

_SLEEP = ("sleep", "2147483647")


def hold(fifo: int) -> Optional[ProcessId]:
    """Start a holder of an open FIFO."""
    actions = [(os.POSIX_SPAWN_DUP2, fifo, fd) for fd in (0, 1, 2)]
    return ProcessId.of(os.posix_spawn("/bin/sleep", list(_SLEEP), {}, file_actions=actions, setpgroup=0))


def release(holder: ProcessId) -> None:
    """End a holder, whoever started it."""
    holder.signal(signal.SIGTERM)
    with contextlib.suppress(ChildProcessError):  # an earlier agent's child
        os.waitpid(holder.pid, 0)


def release_strays(fifos: str, kept: Iterable[Optional[ProcessId]]) -> None:
    """End holders that an agent started and was killed before it could write that down."""
    known = {holder.pid for holder in kept if holder is not None}
    for pid in _holders(fifos):
        process = ProcessId.of(pid)
        if process is not None and pid not in known:
            process.signal(signal.SIGTERM)


def _holders(fifos: str) -> List[int]:
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            if words[:2] == [word.encode() for word in _SLEEP] and os.readlink(f"/proc/{name}/fd/0").startswith(fifos):
                found.append(int(name))
    return found
