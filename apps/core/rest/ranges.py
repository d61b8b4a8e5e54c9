"""Downloads: whole or a byte range (RFC 9110), in constant memory, without holding a database connection."""

import re
from collections.abc import AsyncIterator, Callable

from asgiref.sync import sync_to_async
from django.db import connection
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

CHUNK = 1 << 20
_RANGE = re.compile(r"^bytes=(\d{0,18})-(\d{0,18})$")

Reader = Callable[[int, int], bytes]
"""Returns at most `length` bytes from `offset`."""


class Unsatisfiable(ValueError):
    """The range begins after the end."""


def parse_range(header: str | None, length: int) -> tuple[int, int] | None:
    """Returns (first, end) of one byte range, None for "the whole"; raises Unsatisfiable.

    Several ranges and other units are answered with the whole, as RFC 9110 allows.
    """
    match = _RANGE.match(header or "")
    if match is None or match.group(1) == match.group(2) == "":
        return None
    first, last = match.groups()
    if first == "":
        if int(last) == 0 or length == 0:
            raise Unsatisfiable
        return max(0, length - int(last)), length
    begin, end = int(first), min(int(last) + 1 if last else length, length)
    if last and int(last) < begin:
        return None
    if begin >= length:
        raise Unsatisfiable
    return begin, end


def download(read: Reader, *, length: int, range_header: str | None, filename: str) -> HttpResponseBase:
    """Answers 200 with the whole, 206 with a range or 416; `read` is called in a thread, a chunk at a time."""
    try:
        part = parse_range(range_header, length)
    except Unsatisfiable:
        return HttpResponse(status=416, headers={"Content-Range": f"bytes */{length}"})
    begin, end = part or (0, length)
    release_connection()
    answer = StreamingHttpResponse(
        _chunks(read, begin, end), status=206 if part else 200, content_type="application/octet-stream"
    )
    answer["Content-Length"] = str(end - begin)
    answer["Accept-Ranges"] = "bytes"
    answer["Content-Disposition"] = f'attachment; filename="{filename}"'
    if part:
        answer["Content-Range"] = f"bytes {begin}-{end - 1}/{length}"
    return answer


async def _chunks(read: Reader, offset: int, end: int) -> AsyncIterator[bytes]:
    in_thread = sync_to_async(read, thread_sensitive=False)
    while offset < end:
        data = await in_thread(offset, min(CHUNK, end - offset))
        if not data:
            return
        offset += len(data)
        yield data


def release_connection() -> None:
    """Gives this thread's connection back to the pool: a slow download would hold it until its end."""
    if not connection.in_atomic_block:
        connection.close()
