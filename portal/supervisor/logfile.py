"""Process output kept in files that are rotated by size."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

MAX_BYTES = 8 * 1024 * 1024
KEPT = 3
FOLLOW_SECONDS = 0.25


class RotatingLog:
    """Appends raw bytes to a file; a full one is renamed to .1, .2, … and the oldest goes."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES, kept: int = KEPT) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._kept = kept
        self._file = path.open("ab")

    def write(self, data: bytes) -> None:
        """Append and make it visible to readers."""
        if self._file.tell() + len(data) > self._max_bytes and self._file.tell() > 0:
            self._rotate()
        self._file.write(data)
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _rotate(self) -> None:
        self._file.close()
        for number in range(self._kept, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            newer = self.path if number == 1 else self.path.with_name(f"{self.path.name}.{number - 1}")
            if newer.exists():
                newer.replace(older)
        self._file = self.path.open("ab")


def tail(path: Path, lines: int) -> list[str]:
    """Return the last lines of a file (from its last 256 KiB at most)."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 256 * 1024))
            return file.read().decode("utf-8", "replace").splitlines()[-lines:]
    except FileNotFoundError:
        return []


def follow(path: Path) -> Iterator[str]:
    """Yield what is appended from now on, for ever; goes on in the new file after a rotation."""
    file = path.open("rb")
    file.seek(0, 2)
    while True:
        data = file.read()
        if data:
            yield data.decode("utf-8", "replace")
        elif _replaced(path, file.fileno()):
            file.close()
            file = path.open("rb")
        else:
            time.sleep(FOLLOW_SECONDS)


def _replaced(path: Path, descriptor: int) -> bool:
    try:
        return path.stat().st_ino != os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False
