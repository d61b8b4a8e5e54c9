"""A client of the live socket that speaks ASGI to the application, without a network in between."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator

from apps.console import consumers
from tests.world import Person

DEADLINE_S = 20.0

Headers = Iterable[tuple[bytes, bytes]]


class Socket:
    """One socket as its client sees it."""

    def __init__(
        self,
        headers: Headers = (),
        *,
        subprotocols: Iterable[str] = (),
        timing: consumers.Timing | None = None,
        path: str = "/ws/live",
    ) -> None:
        scope = {
            "type": "websocket", "path": path, "query_string": b"", "headers": list(headers),
            "subprotocols": list(subprotocols), "client": ("192.0.2.7", 5000),
        }  # fmt: skip
        self.raw = ApplicationCommunicator(_application(timing), scope)

    async def open(self) -> dict[str, Any]:
        """Connects; returns the server's first message."""
        await self.raw.send_input({"type": "websocket.connect"})
        return dict(await self.raw.receive_output(timeout=DEADLINE_S))

    async def say(self, **message: Any) -> None:
        """Sends one message of the protocol."""
        await self.send(json.dumps(message))

    async def send(self, text: str) -> None:
        """Sends any text."""
        await self.raw.send_input({"type": "websocket.receive", "text": text})

    async def anything(self) -> dict[str, Any]:
        """Returns the next message, pings too."""
        event = await self.raw.receive_output(timeout=DEADLINE_S)
        assert event["type"] == "websocket.send", event
        message: dict[str, Any] = json.loads(event["text"])
        return message

    async def next(self) -> dict[str, Any]:
        """Returns the next message that is no ping."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                message = await self.anything()
                if message["type"] != "ping":
                    return message

    async def watch(self, topic: str) -> dict[str, Any]:
        """Subscribes; returns the answer."""
        await self.say(subscribe=topic)
        return await self.next()

    async def closed(self) -> int:
        """Waits for the server's close; returns its code."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                event = await self.raw.receive_output(timeout=DEADLINE_S)
                if event["type"] == "websocket.close":
                    return int(event["code"])

    async def leave(self) -> None:
        """Closes from the client's side and waits for the application's end."""
        if not self.raw.future.done():
            await self.raw.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.raw.wait(timeout=DEADLINE_S)


@contextlib.asynccontextmanager
async def connected(person: Person, timing: consumers.Timing | None = None) -> AsyncIterator[Socket]:
    """Opens a socket with a token of the person."""
    token = await sync_to_async(lambda: person.token)()
    socket = Socket([(b"authorization", f"Bearer {token}".encode())], timing=timing)
    first = await socket.open()
    assert first["type"] == "websocket.accept", first
    try:
        yield socket
    finally:
        await socket.leave()


def _application(timing: consumers.Timing | None) -> Any:
    """Returns the whole application, or the socket alone with other intervals."""
    from portal.asgi import application

    if timing is None:
        return application

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await consumers.live(scope, receive, send, timing)

    return app
