"""A stream of one attempt on the node's disk: segment files, bounded, hashed, freed when acknowledged."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import threading
from typing import Optional

from workers.agent.files import write_all, write_atomic
from workers.agent.sha import Sha256

SEGMENT_BYTES = 8 << 20
SPOOL_BYTES = 256 << 20
_HASH_CHUNK = 1 << 20
_SPLICE_F_MOVE_NONBLOCK = 3

_libc = ctypes.CDLL(None, use_errno=True)
_libc.splice.restype = ctypes.c_ssize_t
_libc.splice.argtypes = (
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_uint,
)


class Spool:
    """One writer appends; others may read and acknowledge at the same time.

    A segment's file is named by the offset it starts at; beside it lies the SHA-256 state of everything before it,
    written first, so a restarted agent goes on hashing from the last segment alone. The length is always what the
    files say: there is no index that a SIGKILL could leave behind the data.
    """

    def __init__(self, folder: str, *, bound: int = SPOOL_BYTES, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder = folder
        self._bound = bound
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)
        self.acked = 0
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._starts = sorted(int(name[4:], 16) for name in os.listdir(folder) if name.startswith("seg-")) or [0]
        self._fd = os.open(self._segment(self._starts[-1]), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # One plain number, so that readers in other threads never see it half moved.
        self.length = self._starts[-1] + os.fstat(self._fd).st_size
        self._hash = self._resume_hash()
        self._hashed = self._starts[-1]

    @property
    def first(self) -> int:
        """The first offset still on disk."""
        return self._starts[0]

    @property
    def _tail(self) -> int:
        return self.length - self._starts[-1]

    def append(self, data: bytes, *, stop: Optional[threading.Event] = None) -> bool:
        """Write bytes, waiting for room; False when `stop` was set first (then some may be missing)."""
        view = memoryview(data)
        while view:
            while not self.wait_for_room(0.5):
                if stop is not None and stop.is_set():
                    return False
            piece = view[: self._space()]
            os.lseek(self._fd, self._tail, os.SEEK_SET)
            write_all(self._fd, bytes(piece))
            self.length += len(piece)
            view = view[len(piece) :]
        return True

    def splice_from(self, pipe: int, limit: int) -> int:
        """Move at most `limit` bytes from a pipe in one system call, so that no kill can lose them; 0 when empty."""
        count = min(limit, self._space())
        moved = _splice(pipe, self._fd, self._tail, count)
        self.length += moved
        return moved

    def wait_for_room(self, timeout_s: float) -> bool:
        """Free acknowledged segments where needed; False when the spool is still full after the wait."""
        with self._freed:
            self._free()
            if self._full():
                self._freed.wait(timeout_s)
                self._free()
            return not self._full()

    def read(self, offset: int, count: int) -> bytes:
        """Bytes from `offset`, up to a segment's end; raises ValueError when they were freed."""
        with self._lock:
            start = max((s for s in self._starts if s <= offset), default=None)
            if start is None:
                raise ValueError(f"offset {offset} was freed, the spool begins at {self._starts[0]}")
            fd = os.open(self._segment(start), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, min(count, self.length - offset), offset - start)
        finally:
            os.close(fd)

    def ack(self, offset: int) -> None:
        """The portal holds the bytes below `offset` durably."""
        with self._freed:
            self.acked = max(self.acked, min(offset, self.length))
            self._freed.notify_all()

    def sha256(self) -> Optional[str]:
        """The digest of the whole stream, None when freed bytes are in no kept state; call it once, last."""
        if self._hash is None:
            return None
        whole = Sha256(self._hash.state) if self._hash.state is not None else self._hash
        if self._hashed < self.length:
            self._hash_segment(whole, self._fd, self._tail)
        return whole.hexdigest()

    def close(self) -> None:
        """Close the writer's file; reading goes on."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def clear(self) -> None:
        """Delete every byte and begin again at 0."""
        os.close(self._fd)
        shutil.rmtree(self._folder)
        os.makedirs(self._folder, mode=0o700)
        with self._lock:
            self._starts = [0]
            self.length = 0
        self._fd = os.open(self._segment(0), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._hash = Sha256()
        self._hashed = 0

    def _segment(self, start: int) -> str:
        return os.path.join(self._folder, f"seg-{start:016x}")

    def _state(self, start: int) -> str:
        return os.path.join(self._folder, f"sha-{start:016x}")

    def _full(self) -> bool:
        return self.length - self._starts[0] >= self._bound

    def _free(self) -> None:
        while self._full() and len(self._starts) > 1 and self._starts[1] <= self.acked:
            start = self._starts.pop(0)
            for path in (self._segment(start), self._state(start)):
                if os.path.exists(path):
                    os.unlink(path)

    def _space(self) -> int:
        """Bytes that still fit into the last segment, or a new one; after an error it may be tried again."""
        if self._tail >= self._segment_bytes:
            self._seal()
        return self._segment_bytes - self._tail

    def _seal(self) -> None:
        start = self.length
        if self._hash is not None:
            if self._hashed < start:
                self._hash_segment(self._hash, self._fd, self._tail)
                self._hashed = start
            if self._hash.state is not None:
                write_atomic(self._state(start), self._hash.state)
        fd = os.open(self._segment(start), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.close(self._fd)
        with self._lock:
            self._fd = fd
            self._starts.append(start)

    def _resume_hash(self) -> Optional[Sha256]:
        last = self._starts[-1]
        if last == 0:
            return Sha256()
        try:
            with open(self._state(last), "rb") as file:
                return Sha256(file.read())
        except (OSError, ValueError):
            return self._hash_again()

    def _hash_again(self) -> Optional[Sha256]:
        if self._starts[0] != 0:
            return None
        digest = Sha256()
        for start in self._starts[:-1]:
            fd = os.open(self._segment(start), os.O_RDONLY | os.O_CLOEXEC)
            try:
                self._hash_segment(digest, fd, os.fstat(fd).st_size)
            finally:
                os.close(fd)
        return digest

    @staticmethod
    def _hash_segment(digest: Sha256, fd: int, size: int) -> None:
        offset = 0
        while offset < size:
            data = os.pread(fd, min(_HASH_CHUNK, size - offset), offset)
            if not data:
                raise OSError(errno.EIO, "a spool segment is shorter than its size")
            digest.update(data)
            offset += len(data)


def _splice(pipe: int, target: int, offset: int, count: int) -> int:
    position = ctypes.c_longlong(offset)
    moved: int = _libc.splice(pipe, None, target, ctypes.byref(position), count, _SPLICE_F_MOVE_NONBLOCK)
    if moved >= 0:
        return moved
    code = ctypes.get_errno()
    if code in (errno.EAGAIN, errno.EINTR):
        return 0
    if code != errno.EINVAL:
        raise OSError(code, os.strerror(code))
    # A file system without splice: here a kill between the two calls loses what was read.
    try:
        data = os.read(pipe, min(count, 65536))
    except BlockingIOError:
        return 0
    os.lseek(target, offset, os.SEEK_SET)
    write_all(target, data)
    return len(data)
