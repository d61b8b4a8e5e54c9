"""What a container left in /berth/out, as a tar stream that is the same whenever it is made again."""

from __future__ import annotations

import os
import stat
import tarfile
from typing import IO, Iterator, Tuple, cast

from workers.agent.spool import Spool

_END_BYTES = 10240  # a tar ends with up to one record of zeros
_HEAD_BYTES = 4096  # header, long-name header and padding of one member, generously


class _Sink:
    """The file-like face that tarfile wants."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    def write(self, data: bytes) -> int:
        self._spool.append(data)
        return len(data)


def spool_outputs(folder: str, spool: Spool, limit: int) -> bool:
    """Write the tar of `folder` (nothing when it is empty); False when files were left out for the limit."""
    complete = True
    paths = list(_walk(folder, ""))
    if not paths:
        return True
    sink = cast("IO[bytes]", _Sink(spool))
    with tarfile.open(
        fileobj=sink, mode="w|", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
    ) as tar:
        for path, size in paths:
            if tar.offset + _HEAD_BYTES + len(path) + size + _END_BYTES > limit:
                complete = False
                continue
            tar.add(os.path.join(folder, path), arcname=path, recursive=False)
    return complete


def _walk(folder: str, prefix: str) -> Iterator[Tuple[str, int]]:
    """Paths and sizes in a fixed order, links not followed; sockets, FIFOs and devices are no output."""
    for name in sorted(os.listdir(os.path.join(folder, prefix) if prefix else folder)):
        path = os.path.join(prefix, name) if prefix else name
        info = os.lstat(os.path.join(folder, path))
        if stat.S_ISREG(info.st_mode):
            yield path, info.st_size
        elif stat.S_ISLNK(info.st_mode):
            yield path, 0
        elif stat.S_ISDIR(info.st_mode):
            yield path, 0
            yield from _walk(folder, path)
