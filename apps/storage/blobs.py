"""Bytes outside the database behind one Protocol: a folder now, S3 later by the same tests.

A key is a relative path. Writes are idempotent by offset: the same bytes again change nothing.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from django.conf import settings

_KEY = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$")
READ_CHUNK = 1 << 20


class BlobStore(Protocol):
    """What keeps bytes by key."""

    def write_at(self, key: str, offset: int, data: bytes | memoryview) -> None:
        """Writes bytes at an offset; they survive the writer's death once this returns."""

    def sync(self, key: str) -> None:
        """Makes what was written survive a power cut."""

    def read(self, key: str, offset: int, length: int) -> bytes:
        """Returns at most `length` bytes from the offset; fewer at the end."""

    def size(self, key: str) -> int:
        """Returns the length in bytes, 0 when there is no such blob."""

    def delete_prefix(self, prefix: str) -> None:
        """Removes every blob below a prefix; none is no error."""


class FolderBlobStore:
    """Blobs as files below one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def _path(self, key: str) -> Path:
        if not _KEY.match(key):
            raise ValueError(f"not a blob key: {key!r}")
        return self._root / key

    def write_at(self, key: str, offset: int, data: bytes | memoryview) -> None:
        """Writes into the file, which is made with its folders at the first write."""
        path = self._path(key)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            view = memoryview(data)
            while view:
                written = os.pwrite(handle, view, offset)
                view, offset = view[written:], offset + written
        finally:
            os.close(handle)

    def sync(self, key: str) -> None:
        """Flushes the file to disk."""
        handle = os.open(self._path(key), os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def read(self, key: str, offset: int, length: int) -> bytes:
        """Reads from the file; a missing one reads as empty."""
        try:
            with self._path(key).open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except FileNotFoundError:
            return b""

    def size(self, key: str) -> int:
        """Returns the file's size."""
        try:
            return self._path(key).stat().st_size
        except FileNotFoundError:
            return 0

    def delete_prefix(self, prefix: str) -> None:
        """Removes the folder or file."""
        path = self._path(prefix)
        if path.is_dir():
            for child in sorted(path.rglob("*"), reverse=True):
                child.rmdir() if child.is_dir() else child.unlink(missing_ok=True)
            path.rmdir()
        else:
            path.unlink(missing_ok=True)


def blob_store() -> BlobStore:
    """Returns the installation's blob store."""
    return FolderBlobStore(Path(settings.BERTH_BLOB_DIR))


def blob_chunks(key: str, length: int) -> Iterator[bytes]:
    """Yields the first `length` bytes of a blob in pieces of at most 1 MiB."""
    store, offset = blob_store(), 0
    while offset < length:
        data = store.read(key, offset, min(READ_CHUNK, length - offset))
        if not data:
            return
        offset += len(data)
        yield data


def blob_sha256(key: str, length: int) -> str:
    """Returns the SHA-256 (hex) of the first `length` bytes."""
    digest = hashlib.sha256()
    for chunk in blob_chunks(key, length):
        digest.update(chunk)
    return digest.hexdigest()
