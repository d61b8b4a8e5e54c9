"""Small files that must survive a kill or a power cut."""

from __future__ import annotations

import json
import os
from typing import Any


def write_atomic(path: str, data: bytes, *, durable: bool = False, mode: int = 0o600) -> None:
    """Replace a file's content in one step; `durable` also waits for the disk."""
    temporary = path + ".new"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        write_all(fd, data)
        if durable:
            os.fdatasync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, path)


def write_json(path: str, value: Any, *, durable: bool = False) -> None:
    """write_atomic for a JSON value."""
    write_atomic(path, json.dumps(value, separators=(",", ":")).encode(), durable=durable)


def read_json(path: str) -> Any:
    """The JSON value of a file, or None when it is absent or was cut short by a power cut."""
    try:
        with open(path, "rb") as file:
            return json.loads(file.read().decode())
    except (OSError, ValueError):
        return None


def read_text(path: str, default: str = "") -> str:
    """The text of a small file, invalid bytes replaced."""
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return default


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data` to a blocking descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def written_ns(path: str) -> int:
    """When a file was last written, in nanoseconds since 1970; 0 when it is not there."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
