"""What happens to the children when the supervisor itself is killed.

Two nets. The kernel signals each child when the thread that started it dies (PR_SET_PDEATHSIG), so after SIGKILL of
the supervisor they stop in order by themselves. And each child carries a shared lock on `children.lock`: the next
supervisor waits until all have gone, and kills those that stay, before it starts anything. Adoption was rejected:
an adopted process has no pipe for its log and no exit status for its new parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path

from portal.embedded.locks import FileLock, acquire, holders, is_held
from portal.supervisor.spec import SupervisorError

LOCK_NAME = "supervisor.lock"
PR_SET_PDEATHSIG = 1
GRACE_SECONDS = 20.0
KILL_SECONDS = 5.0

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(orphan_signal: signal.Signals) -> Callable[[], None]:
    """Return a function for the child, between fork and exec: ask the kernel for that signal at our death."""
    parent = os.getpid()

    def ask() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a supervisor started by `… &` in a script ignores it
        _libc.prctl(PR_SET_PDEATHSIG, int(orphan_signal), 0, 0, 0)
        if os.getppid() != parent:  # the parent died before we could ask
            os._exit(1)

    return ask


def supervisor_lock(locks_dir: Path, data_dir: Path) -> FileLock:
    """Take the lock of the one supervisor of a data folder; SupervisorError when another has it."""
    path = locks_dir / LOCK_NAME
    lock = acquire(path)
    if lock is None:
        raise _already_runs(path, data_dir)
    lock.note(os.getpid())
    return lock


def check_not_running(data_dir: Path) -> None:
    """Raise SupervisorError when a supervisor runs on the data folder."""
    path = data_dir / "locks" / LOCK_NAME
    if is_held(path):
        raise _already_runs(path, data_dir)


def _already_runs(path: Path, data_dir: Path) -> SupervisorError:
    pid = path.read_text(encoding="ascii").strip() or "?"
    return SupervisorError(
        f"Berth already runs on {data_dir} (supervisor pid {pid}): see `berth-ctl ps`, "
        "stop it with `berth-ctl stop`, or set BERTH_DATA_DIR to another folder."
    )


def children_lock(locks_dir: Path, grace_seconds: float = GRACE_SECONDS) -> FileLock:
    """Return the lock for children to carry, once every child of a supervisor that was killed is gone."""
    path = locks_dir / "children.lock"
    alone = acquire(path, wait_seconds=grace_seconds)
    if alone is None:
        for pid in holders(path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        alone = acquire(path, wait_seconds=KILL_SECONDS)
    if alone is None:
        raise SupervisorError(f"Processes of an earlier run do not end: {holders(path)}. Stop them, then start again.")
    alone.share()
    return alone
