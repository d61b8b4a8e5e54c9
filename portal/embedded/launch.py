"""One way to describe and to start a server program, for the supervisor and for detached starts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from portal.embedded.errors import AlreadyRunningError, EmbeddedError
from portal.embedded.identity import ServerUser
from portal.embedded.locks import FileLock, acquire, noted_pid, wait_until_free

SERVER_ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
LEFTOVER_SECONDS = 10.0
PROBE_EVERY_SECONDS = 0.03
LOG_TAIL_BYTES = 2000


@dataclass
class Launch:
    """A program ready to start; `lock` is inherited by it and noted with its pid."""

    argv: list[str]
    lock: FileLock
    user: ServerUser | None
    cwd: Path


def take_lock(path: Path, what: str, data_dir: Path) -> FileLock:
    """Take a server's lock; waits a moment for the children of a server that was killed."""
    wait = LEFTOVER_SECONDS if noted_pid(path) is None else 0.0
    lock = acquire(path, wait_seconds=wait)
    if lock is None:
        pid = noted_pid(path)
        raise AlreadyRunningError(
            f"{what} already runs on {data_dir}" + (f" (pid {pid})" if pid else "") + ": stop it first "
            "(`berth-ctl stop`, or `python -m portal.embedded stop`) or set BERTH_DATA_DIR to another folder."
        )
    return lock


def start_detached(launch: Launch, log: Path) -> subprocess.Popen[bytes]:
    """Start the program so that it outlives us, its output appended to the log."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            launch.argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=launch.cwd,
            env=SERVER_ENV,
            pass_fds=[launch.lock.descriptor],
            start_new_session=True,
            **({} if launch.user is None else launch.user.popen_options()),
        )
    launch.lock.note(child.pid)
    launch.lock.release()
    return child


def wait_ready(
    child: subprocess.Popen[bytes], probe: Callable[[], None], *, what: str, log: Path, seconds: float
) -> None:
    """Wait until the probe stops raising; else end the server and raise EmbeddedError with the reason."""
    deadline = time.monotonic() + seconds
    while True:
        if child.poll() is not None:
            raise EmbeddedError(
                f"{what} ended while starting (exit {child.returncode}). End of {log}:\n{log_tail(log)}"
            )
        try:
            probe()
        except EmbeddedError:
            _end(child)
            raise
        except Exception as error:
            if time.monotonic() >= deadline:
                _end(child)
                raise EmbeddedError(f"{what} did not answer within {seconds:.0f} s ({error}). See {log}.") from None
            time.sleep(PROBE_EVERY_SECONDS)
        else:
            return


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(LEFTOVER_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()


def stop_locked(path: Path, stop_signal: signal.Signals, *, what: str, seconds: float) -> bool:
    """Stop the server that carries the lock: the signal, a bounded wait, then SIGKILL. False when none runs."""
    pid = noted_pid(path)
    if pid is None:
        return False
    for attempt, bound in ((stop_signal, seconds), (signal.SIGKILL, LEFTOVER_SECONDS)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, attempt)
        if wait_until_free(path, bound):
            return True
    raise EmbeddedError(f"{what} (pid {pid}) does not end, not even by SIGKILL: look at `ps -p {pid} -o stat,wchan`.")


def log_tail(log: Path) -> str:
    """Return the last lines of a log file."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_TAIL_BYTES))
            return file.read().decode("utf-8", "replace").strip()
    except OSError:
        return "(no output)"
