"""What the kernel's log says of GPUs in this boot: Xid lines and GPUs off the bus, the first of each kind."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from typing import Dict, List, Optional

_TELLING = re.compile(
    r"NVRM: .{0,80}?(?:Xid \([^)]{1,40}\): [0-9]{1,4}|[0-9A-Fa-f:.]{7,24}.{0,20}has fallen off the bus)"
)
_MOST, _LONGEST, _AT_ONCE = 64, 300, 20_000
_RECORD = 8192  # the kernel gives one record per read, never longer than this


class KernelLog:
    """Reads /dev/kmsg from the boot on, without ever waiting; empty where it may not be read."""

    def __init__(self, device: str = "/dev/kmsg") -> None:
        self._device = device
        self._fd: Optional[int] = None
        self._told: Dict[str, str] = {}
        self._lock = threading.Lock()

    def lines(self) -> List[str]:
        """The first line of each GPU and code in this boot, oldest first: a state, so that none can get lost."""
        with self._lock:
            if self._fd is None:
                with contextlib.suppress(OSError):
                    self._fd = os.open(self._device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            if self._fd is not None:
                self._read(self._fd)
            return list(self._told.values())

    def close(self) -> None:
        """Let go of the device."""
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
            self._fd = None

    def _read(self, fd: int) -> None:
        for _ in range(_AT_ONCE):
            try:
                record = os.read(fd, _RECORD)
            except OSError as error:
                if error.errno == errno.EPIPE:  # overwritten before we came: the next read goes on behind the gap
                    continue
                return
            if not record:
                return
            for line in record.decode(errors="replace").splitlines():
                self._take(line)

    def _take(self, line: str) -> None:
        found = _TELLING.search(line)
        if found and len(self._told) < _MOST:
            self._told.setdefault(found[0], line[:_LONGEST])
