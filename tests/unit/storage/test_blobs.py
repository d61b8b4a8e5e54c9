"""The folder store keeps bytes by key and offset, and nothing outside its folder."""

import hashlib
from pathlib import Path

import pytest

from apps.storage.blobs import FolderBlobStore


@pytest.fixture
def store(tmp_path: Path) -> FolderBlobStore:
    return FolderBlobStore(tmp_path)


def test_write_read_size_delete(store: FolderBlobStore) -> None:
    store.write_at("a/b/0", 0, b"hello")
    store.write_at("a/b/0", 5, b" world")
    store.write_at("a/b/0", 0, b"hello")
    store.sync("a/b/0")
    assert store.size("a/b/0") == 11
    assert store.read("a/b/0", 6, 100) == b"world"
    store.delete_prefix("a")
    assert store.size("a/b/0") == 0
    assert store.read("a/b/0", 0, 10) == b""
    store.delete_prefix("a")


@pytest.mark.parametrize("key", ["../x", "/etc/passwd", "a/../b", "", "a//b", ".hidden", "a/.b", "a\0b"])
def test_keys_that_lead_out_are_refused(store: FolderBlobStore, key: str) -> None:
    with pytest.raises(ValueError, match="not a blob key"):
        store.write_at(key, 0, b"x")


def test_files_are_private_and_large_writes_whole(store: FolderBlobStore, tmp_path: Path) -> None:
    data = bytes(range(256)) * 40_000
    store.write_at("big", 0, data)
    assert (tmp_path / "big").stat().st_mode & 0o077 == 0
    assert hashlib.sha256(store.read("big", 0, len(data))).digest() == hashlib.sha256(data).digest()
