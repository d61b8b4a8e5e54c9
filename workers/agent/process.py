"""Waiting for processes that may or may not be our children, and running the runtime's commands."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import subprocess
import threading
import time
from typing import Dict, List, NamedTuple, Optional, Tuple

from workers.agent.files import read_text

_PIDFD_OPEN = 434  # the same number on every architecture
_PROC_POLL_S = 0.2
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_libc = ctypes.CDLL(None, use_errno=True)


class Wake:
    """A flag that poll() can wait for."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._lock = threading.Lock()  # a late set() must not write into whatever has the number next
        self._closed = False

    def fileno(self) -> int:
        """The descriptor that becomes readable."""
        return self._read

    def set(self) -> None:
        """Wake whoever waits, now or at its next wait."""
        with self._lock, contextlib.suppress(BlockingIOError):  # set often enough already
            if not self._closed:
                os.write(self._write, b"x")

    def clear(self) -> None:
        """Forget the wakes so far."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 4096)

    def close(self) -> None:
        """Give the descriptors back."""
        with self._lock:
            self._closed = True
            os.close(self._read)
            os.close(self._write)

    def wait(self, timeout_s: float) -> bool:
        """True and cleared when woken in time."""
        woken = bool(wait_readable([self._read], timeout_s))
        self.clear()
        return woken


def wait_readable(fds: List[int], timeout_s: Optional[float]) -> List[int]:
    """The descriptors that are readable (or at their end) within the time."""
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    return [fd for fd, _ in poller.poll(None if timeout_s is None else max(0, timeout_s * 1000))]


class ProcessId(NamedTuple):
    """A process told from a later one with the same number by its start time."""

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> Optional[ProcessId]:
        """The process that has this number now."""
        start = _start_time(pid)
        return None if start is None else cls(pid, start)

    def alive(self) -> bool:
        """True while it runs; a zombie has ended."""
        return _start_time(self.pid) == self.start

    def signal(self, number: int) -> None:
        """Send a signal if it still is the same process."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, wake: Wake, timeout_s: Optional[float]) -> bool:
        """True when it has ended; False after the time or a wake (which is cleared)."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        fd = _pidfd(self.pid)
        try:
            while self.alive():
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                step = left if fd is not None else min(_PROC_POLL_S, _PROC_POLL_S if left is None else left)
                ready = wait_readable([wake.fileno()] if fd is None else [fd, wake.fileno()], step)
                if wake.fileno() in ready and (fd is None or fd not in ready):
                    wake.clear()
                    return not self.alive()
            return True
        finally:
            if fd is not None:
                os.close(fd)


def _pidfd(pid: int) -> Optional[int]:
    fd = _libc.syscall(_PIDFD_OPEN, pid, 0)
    return fd if fd >= 0 else None  # an old kernel: the caller polls /proc


def _start_time(pid: int) -> Optional[int]:
    text = read_text(f"/proc/{pid}/stat")
    if not text:
        return None
    words = text[text.rindex(")") + 2 :].split()
    return None if words[0] in "ZX" else int(words[19])


class Command(NamedTuple):
    """A command line for the runtime; nothing secret is in `argv`."""

    argv: Tuple[str, ...]
    stdin: bytes = b""
    brief: bool = False  # ends within moments, so that it never has to give memory back


class Outcome(NamedTuple):
    """How a command ended; rc is None when it was stopped before its end."""

    rc: Optional[int]
    stdout: str
    stderr: str


def runtime_environment(*, brief: bool = False) -> Dict[str, str]:
    """A clean environment for the runtime, with only the site's own container settings and proxies kept."""
    kept = ("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    environment = {"PATH": _PATH, "HOME": "/root", "LC_ALL": "C"}
    if brief:  # podman and runc are Go: without its collector a start takes 16 ms less of 128, and 5 MiB more
        environment["GOGC"] = "off"
    for name in kept:
        for key in (name, name.lower()):
            if key in os.environ:
                environment[key] = os.environ[key]
    return environment


class Running:
    """A started command whose output goes to files, so that it can end well even if the agent dies first."""

    def __init__(self, command: Command, folder: str, name: str) -> None:
        self._out = os.path.join(folder, name + ".out")
        self._err = os.path.join(folder, name + ".err")
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self._process = subprocess.Popen(
                command.argv,
                stdin=subprocess.PIPE if command.stdin else subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=runtime_environment(brief=command.brief),
                cwd="/",
                start_new_session=True,
            )
        if self._process.stdin is not None:
            self._process.stdin.write(command.stdin)
            self._process.stdin.close()
        self.identity = ProcessId.of(self._process.pid)

    @property
    def errors_so_far(self) -> str:
        """What the command has written to stderr."""
        return read_text(self._err)

    def wait(self, wake: Wake, timeout_s: float) -> bool:
        """True when it has ended; False after the time or a wake."""
        return self.identity is None or self.identity.wait(wake, timeout_s)

    def stop(self) -> None:
        """End it: TERM, three seconds, KILL."""
        self._process.terminate()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def outcome(self) -> Outcome:
        """The end of the command; waits at most 5 s for it."""
        try:
            rc: Optional[int] = self._process.wait(5)
        except subprocess.TimeoutExpired:
            rc = None
        return Outcome(rc, read_text(self._out), read_text(self._err))


def run(command: Command, folder: str, name: str, *, timeout_s: float) -> Outcome:
    """Run a short command to its end; rc is None when it took too long and was killed."""
    running = Running(command, folder, name)
    wake = Wake()
    try:
        if not running.wait(wake, timeout_s):
            running.stop()
            return Outcome(None, "", f"no answer from {command.argv[0]} within {timeout_s:.0f} s")
        return running.outcome()
    finally:
        wake.close()
