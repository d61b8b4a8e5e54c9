"""A lock on a data folder that lives exactly as long as the server that uses it.

The lock file's descriptor is inherited by the server and its children, so the kernel keeps the lock while any
of them lives and drops it however they end: SIGKILL and power loss leave nothing stale.
"""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.02


@dataclass
class FileLock:
    """An exclusive lock held through an open descriptor."""

    path: Path
    descriptor: int

    def note(self, pid: int) -> None:
        """Write the pid of the server that carries the lock, for messages and for stopping it."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, f"{pid}\n".encode(), 0)

    def release(self) -> None:
        """Close our descriptor; the lock stays while a server still has it."""
        os.close(self.descriptor)

    def drop(self) -> None:
        """Unlock for everybody: a child that another thread forks right now has our descriptor until its exec."""
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        os.close(self.descriptor)

    def share(self) -> None:
        """Let others share the lock from now on, without ever letting go of it."""
        fcntl.flock(self.descriptor, fcntl.LOCK_SH)


def acquire(path: Path, *, wait_seconds: float = 0.0, shared: bool = False) -> FileLock | None:
    """Take the lock, waiting at most that long; None when another process holds it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return None
            time.sleep(POLL_SECONDS)
        else:
            return FileLock(path, descriptor)


def is_held(path: Path) -> bool:
    """Say whether some process holds the lock exclusively."""
    if not path.exists():
        return False
    lock = acquire(path, shared=True)
    if lock is None:
        return True
    lock.drop()
    return False


def wait_until_free(path: Path, seconds: float) -> bool:
    """Wait at most that long for the lock to be free; say whether it is."""
    lock = acquire(path, wait_seconds=seconds)
    if lock is None:
        return False
    lock.drop()
    return True


def noted_pid(path: Path) -> int | None:
    """Return the noted pid if that process really has the lock file open (pids are reused)."""
    try:
        pid = int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    try:
        wanted = path.stat()
    except FileNotFoundError:
        return None
    return pid if _has_open(pid, wanted) else None


def holders(path: Path) -> list[int]:
    """Return the pids of all other processes that have this file open."""
    try:
        wanted = path.stat()
    except FileNotFoundError:
        return []
    return [pid for pid in _all_pids() if pid != os.getpid() and _has_open(pid, wanted)]


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _has_open(pid: int, wanted: os.stat_result) -> bool:
    try:
        entries = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # ended meanwhile, or another user's
        return False
    for entry in entries:
        try:
            found = entry.stat()
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
            return True
    return False
