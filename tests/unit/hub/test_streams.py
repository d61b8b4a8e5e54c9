"""Bytes from a node are kept once and in order, whatever is repeated."""

import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.storage.blobs import FolderBlobStore
from workers.hub.streams import STRIDE_BYTES, OffsetGap, StreamWriter


class MemoryStore(FolderBlobStore):
    """Keeps bytes in memory and counts syncs."""

    def __init__(self) -> None:
        super().__init__(Path("/nonexistent"))
        self.data = bytearray()
        self.syncs = 0

    def write_at(self, key: str, offset: int, data: bytes | memoryview) -> None:
        assert offset <= len(self.data)
        self.data[offset : offset + len(data)] = data

    def sync(self, key: str) -> None:
        self.syncs += 1


def writer(store: MemoryStore, durable: int = 0) -> StreamWriter:
    return StreamWriter(uuid.uuid4(), 0, durable, store)


def test_repeats_and_overlaps_change_nothing() -> None:
    store = MemoryStore()
    w = writer(store)
    w.write(0, b"abc")
    w.write(0, b"abc")
    w.write(1, b"bcdef")
    assert (bytes(store.data), w.length) == (b"abcdef", 6)


def test_a_gap_is_refused() -> None:
    with pytest.raises(OffsetGap):
        writer(MemoryStore(), durable=3).write(4, b"x")


def test_the_first_bytes_are_indexed_at_once_and_then_in_strides() -> None:
    store = MemoryStore()
    w = writer(store)
    assert not w.stride_due()
    w.write(0, b"first line\n")
    assert w.stride_due()
    w.durable = w.sync()
    w.write(w.length, b"x")
    assert not w.stride_due()
    w.write(w.length, bytes(STRIDE_BYTES))
    assert w.stride_due()
    assert store.syncs == 1


@given(st.binary(max_size=200), st.lists(st.tuples(st.integers(0, 220), st.integers(0, 80)), max_size=30))
def test_any_order_of_resends_gives_a_prefix(data: bytes, sends: list[tuple[int, int]]) -> None:
    store = MemoryStore()
    w = writer(store)
    for offset, size in sends:
        piece = data[offset : offset + size]
        if offset > w.length:
            with pytest.raises(OffsetGap):
                w.write(offset, piece)
        else:
            w.write(offset, piece)
        assert bytes(store.data) == data[: w.length]
