"""Was a container killed for memory? The kernel's log knows, where the runtime may not (conmon on cgroup v1)."""

from __future__ import annotations

import ctypes

_READ_ALL, _SIZE = 3, 10  # syslog(2) actions: they need no /dev/kmsg and consume nothing
_LONGEST = 64 << 20

_libc = ctypes.CDLL(None)


def killed_for_memory(container: str) -> bool:
    """True when the kernel's log tells of an OOM kill in this container."""
    return bool(container) and tells_of(kernel_log(), container)


def tells_of(log: str, container: str) -> bool:
    """Search a kernel log; lines of old kernels have other words, but the control group's name in each."""
    return any(container in line and ("oom-kill:" in line or "Task in" in line) for line in log.splitlines())


def kernel_log() -> str:
    """The kernel's log buffer; empty where it may not be read."""
    size = min(_LONGEST, _libc.klogctl(_SIZE, None, 0))
    if size <= 0:
        return ""
    buffer = ctypes.create_string_buffer(size)
    length = _libc.klogctl(_READ_ALL, buffer, size)
    return buffer.raw[:length].decode(errors="replace") if length > 0 else ""
