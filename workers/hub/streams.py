"""Bytes from a node to the blob store: written as they come, indexed and acknowledged in strides."""

import threading
import time
import uuid

from apps.core.failpoints import failpoint
from apps.storage.blobs import BlobStore
from apps.workloads.selectors import stream_key
from workers import points

STRIDE_BYTES = 8 << 20
STRIDE_S = 0.1
PROMPT_BYTES = 64 << 10
"""So little is synced by the link's own thread, at once; more goes to the flusher beside it: a disk must not hold the
link back."""


class OffsetGap(Exception):
    """The node sent bytes beyond what stands here; the link starts over from the durable offset."""


class StreamWriter:
    """One stream of one attempt; `length` is written, `durable` is synced and indexed. Thread-safe."""

    def __init__(self, attempt_id: uuid.UUID, stream: int, durable: int, store: BlobStore) -> None:
        self.attempt_id = attempt_id
        self.stream = stream
        self.length = durable
        self.durable = durable
        self.lock = threading.Lock()  # of the length
        self.striding = threading.Lock()  # of the durable length; held while the disk is waited for
        self._key = stream_key(attempt_id, stream)
        self._store = store
        self._strode_at = 0.0

    def write(self, offset: int, data: bytes) -> None:
        """Puts bytes at their offset; what stands already is skipped. Raises OffsetGap."""
        if offset > self.length:
            raise OffsetGap(f"stream {self.stream} of {self.attempt_id}: bytes from {offset}, {self.length} stand here")
        known = self.length - offset
        if known < len(data):
            self._store.write_at(self._key, self.length, memoryview(data)[known:] if known else data)
            self.length = offset + len(data)

    def stride_due(self) -> bool:
        """Says whether what was written should be synced and indexed now: the first bytes at once, then in strides."""
        waiting = self.length - self.durable
        return waiting >= STRIDE_BYTES or (waiting > 0 and time.monotonic() - self._strode_at >= STRIDE_S)

    def prompt_due(self) -> bool:
        """Says whether the link's own thread should do it: little has come, as from a job that prints lines."""
        return self.length - self.durable <= PROMPT_BYTES and self.stride_due()

    def sync(self) -> int:
        """Makes what was written survive a power cut; returns the length that does."""
        failpoint("S11", points.of_attempt(self.attempt_id))
        length = self.length
        self._strode_at = time.monotonic()
        if length:
            self._store.sync(self._key)
        return length
