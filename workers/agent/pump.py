"""Moves a container's output from its FIFO to its spool."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import struct
import termios
import threading
import time
from typing import Callable

from workers.agent.process import Wake, wait_readable
from workers.agent.spool import Spool

log = logging.getLogger("berth.pump")

PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031
_BATCH_S = 0.002
_BATCH_BYTES = 64 * 1024


def log_marker(limit: int) -> bytes:
    """The line that says that a log was cut."""
    return f"\n[berth: the log reached its limit of {limit} bytes; the rest is not kept]\n".encode()


def open_fifo(path: str) -> int:
    """Open (and make) a FIFO for both directions: it never blocks, never ends, and no writer gets SIGPIPE."""
    if not os.path.exists(path):
        os.mkfifo(path, 0o600)
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # a smaller pipe is slower, not wrong
        fcntl.fcntl(fd, _F_SETPIPE_SZ, PIPE_BYTES)
    return fd


class LogPump(threading.Thread):
    """Runs until finish(); keeps at most `limit` bytes, then one marker line, and drains the rest."""

    def __init__(self, fifo: int, spool: Spool, limit: int, moved: Callable[[], None]) -> None:
        super().__init__(name="log-pump", daemon=True)
        self._fifo = fifo
        self._spool = spool
        self._limit = limit
        self._moved = moved
        self._wake = Wake()
        self._closing = threading.Event()
        self._troubled = False
        self.truncated = spool.length > limit

    def finish(self) -> None:
        """Call when every writer is gone: waits until the FIFO is empty and everything is spooled."""
        self._closing.set()
        self._wake.set()
        self.join()
        os.close(self._fifo)
        self._wake.close()

    def run(self) -> None:
        """The thread."""
        if self.truncated:
            self._complete_marker()
        while not (self._closing.is_set() and _waiting(self._fifo) == 0):
            wait_readable([self._fifo, self._wake.fileno()], None)
            self._wake.clear()
            began = time.monotonic()
            if _waiting(self._fifo) and self._spool.wait_for_room(0.5):
                moved = self._step()
                # Many small writes are moved in batches; a thousandth of a second is not seen by anyone.
                if moved < _BATCH_BYTES and not self._closing.is_set():
                    time.sleep(max(0.0, _BATCH_S - (time.monotonic() - began)))

    def _step(self) -> int:
        room = self._limit - self._spool.length
        if room <= 0:
            return self._drain()
        try:
            moved = self._spool.splice_from(self._fifo, min(room, PIPE_BYTES))
        except OSError:
            if not self._troubled:
                log.exception("the spool can't be written; the container waits")  # a full disk, most likely
            self._troubled = True
            time.sleep(0.5)
            return 0
        self._troubled = False
        self._moved()
        return moved

    def _drain(self) -> int:
        if not self.truncated:
            self.truncated = True
            self._complete_marker()
        try:
            return len(os.read(self._fifo, PIPE_BYTES))
        except BlockingIOError:
            return 0

    def _complete_marker(self) -> None:
        missing = log_marker(self._limit)[self._spool.length - self._limit :]
        self._spool.append(missing)
        self._moved()


def _waiting(fifo: int) -> int:
    return int(struct.unpack("i", fcntl.ioctl(fifo, termios.FIONREAD, b"\0" * 4))[0])
