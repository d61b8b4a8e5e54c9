"""Limits what a request may bring before Django writes it to disk: large bodies only for uploads, and for who is known.

Django's ASGI handler reads the whole body into a temporary file before any view or sign-in check runs.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from channels.db import database_sync_to_async
from django.db import Error as DatabaseError

from apps.console.live.identity import credentials_of, identify
from apps.core.rest.problems import CONTENT_TYPE, problem, problem_response

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class _TooLargeError(Exception):
    """The body goes on beyond the limit."""


class BodyLimit:
    """Wraps an ASGI application; `upload_limit` bytes hold for `upload_path`, `limit` bytes for everything else."""

    def __init__(self, application: Application, *, limit: int, upload_path: str, upload_limit: int) -> None:
        self._application = application
        self._limit = limit
        self._upload_path = upload_path
        self._upload_limit = upload_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or answers 401 or 413 itself."""
        length = _length(scope)
        limit = self._limit
        if scope["path"] == self._upload_path and (length is None or length > limit):
            if not await _is_known(scope):
                await _refuse(send, 401)
                return
            limit = self._upload_limit
        if length is not None and length > limit:
            await _refuse(send, 413)
            return
        await self._counted(scope, receive, send, limit)

    async def _counted(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        """A chunked body announces no length, so it is counted as it comes."""
        seen, begun = 0, False

        async def counting() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                raise _TooLargeError
            return message

        async def watching(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._application(scope, counting, watching)
        except _TooLargeError:
            if not begun:
                await _refuse(send, 413)


def _length(scope: Scope) -> int | None:
    """Returns the announced length; 0 without a body, None for a chunked one."""
    headers = dict(scope["headers"])
    if b"transfer-encoding" in headers:
        return None
    text = headers.get(b"content-length", b"0")
    return int(text) if text.isdigit() else 0


async def _is_known(scope: Scope) -> bool:
    try:
        return await database_sync_to_async(identify)(credentials_of(scope)) is not None
    except DatabaseError:
        return False


async def _refuse(send: Send, status: int) -> None:
    if status == 401:
        body = problem(status=401, code="not_authenticated", title="Sign in first", detail="Large bodies need a token.")
    else:
        body = problem(status=413, code="too_large", title="The request is too large", detail="Send a smaller body.")
    content = problem_response(body).content
    headers = [(b"content-type", CONTENT_TYPE.encode()), (b"content-length", str(len(content)).encode())]
    headers += [(b"www-authenticate", b'Bearer realm="berth"')] if status == 401 else []
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": content})
