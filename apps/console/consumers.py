"""The live socket `/ws/live`: a client names topics and gets hints of them, which it redeems by REST.

One task per direction: whatever one of them waits for, the others go on. The socket ends with the first that ends.
"""

import asyncio
import contextlib
import dataclasses
import functools
import json
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Never

import structlog
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.db import Error as DatabaseError
from redis.exceptions import RedisError

from apps.console.live.identity import (
    Credentials,
    Identity,
    Scope,
    credentials_of,
    identify,
    origin_fits,
    subprotocol_of,
)
from apps.console.live.outbox import Outbox, OutboxFullError
from apps.console.live.topics import Seqs, is_topic, visible
from apps.core.hints import group_name

log = structlog.get_logger(__name__)

MAX_TOPICS = 100
MAX_MESSAGE = 4096
MAX_WAITING = 200
MAX_BAD = 20

BAD, TOO_BIG, TRY_LATER = 1008, 1009, 1013
SIGNED_OUT, FOREIGN_PAGE, SILENT, TOO_SLOW = 4401, 4403, 4408, 4429

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclasses.dataclass(frozen=True)
class Timing:
    """Seconds: between pings, until a silent client is given up, between looks at its rights, for one last word."""

    ping: float = 20.0
    silence: float = 60.0
    recheck: float = 30.0
    farewell: float = 5.0


class Closing(Exception):
    """The socket shall be closed with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class ClientGone(Exception):
    """The client has closed the socket."""


async def live(scope: Scope, receive: Receive, send: Send, timing: Timing | None = None) -> None:
    """The ASGI application of one socket."""
    if (await receive())["type"] != "websocket.connect":
        return
    credentials = credentials_of(scope)
    if not origin_fits(scope, credentials):
        await send({"type": "websocket.close", "code": FOREIGN_PAGE})
        return
    try:
        who = await database_sync_to_async(identify)(credentials)
        await send({"type": "websocket.accept", "subprotocol": subprotocol_of(scope)})
        if who is None:
            await send({"type": "websocket.close", "code": SIGNED_OUT, "reason": "sign in again"})
            return
        await LiveSocket(credentials, who, receive, send, timing or Timing()).run()
    except (RedisError, DatabaseError) as error:
        log.warning("live.unavailable", error=str(error).strip())
        await send({"type": "websocket.close", "code": TRY_LATER})


class LiveSocket:
    """One accepted socket."""

    def __init__(self, credentials: Credentials, who: Identity, receive: Receive, send: Send, timing: Timing) -> None:
        self._credentials = credentials
        self._who = who
        self._receive = receive
        self._send = send
        self._timing = timing
        self._layer: Any = get_channel_layer()
        self._channel = ""
        self._joined: set[str] = set()
        self._topics: Seqs = {}  # granted ones only: a hint of any other is not passed on
        self._outbox = Outbox()
        self._commands: asyncio.Queue[dict[str, Any]] = asyncio.Queue(MAX_WAITING)
        self._heard_at = time.monotonic()
        self._bad = 0

    async def run(self) -> None:
        """Serves the socket to its end."""
        self._channel = await self._layer.new_channel()
        loops: tuple[Coroutine[Any, Any, Never], ...] = (
            self._listen(), self._obey(), self._hear(), self._speak(), self._keep_time(), self._keep_rights(),
        )  # fmt: skip
        tasks = [asyncio.create_task(loop) for loop in loops]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=self._timing.farewell)
            await self._leave()
        await self._close([end for task in tasks if (end := _end_of(task)) is not None])

    async def _close(self, ends: list[BaseException]) -> None:
        if any(isinstance(end, ClientGone | OSError) for end in ends):  # servers tell a dead client by an OSError
            return
        code = next((end.code for end in ends if isinstance(end, Closing)), TRY_LATER)
        for end in ends:
            if isinstance(end, RedisError | DatabaseError):
                log.warning("live.unavailable", error=str(end).strip())
            elif not isinstance(end, Closing):
                log.error("live.failed", error=repr(end), exc_info=end)
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(self._timing.farewell):
                await self._send({"type": "websocket.close", "code": code})

    async def _leave(self) -> None:
        """Leaves all groups; without Redis there is nothing to leave."""
        for topic in self._joined:
            with contextlib.suppress(RedisError, TimeoutError):
                async with asyncio.timeout(self._timing.farewell):
                    await self._layer.group_discard(group_name(topic), self._channel)

    async def _listen(self) -> Never:
        """Takes what the client says; never waits for anything but the client."""
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                raise ClientGone
            self._heard_at = time.monotonic()
            text = message.get("text")
            if len(text or message.get("bytes") or "") > MAX_MESSAGE:
                raise Closing(TOO_BIG)
            command = _parsed(text)
            if command is None:
                self._bad += 1
                if self._bad > MAX_BAD:
                    raise Closing(BAD)
                self._answer({"type": "error", "topic": None, "code": 400})
            elif "pong" not in command:
                try:
                    self._commands.put_nowait(command)
                except asyncio.QueueFull:
                    raise Closing(BAD) from None

    async def _obey(self) -> Never:
        """Carries out one command after the other."""
        while True:
            command = await self._commands.get()
            if "subscribe" in command:
                await self._subscribe(command["subscribe"])
            elif command["unsubscribe"] in self._joined:
                await self._unsubscribe(command["unsubscribe"])
            else:
                self._answer({"type": "error", "topic": command["unsubscribe"], "code": 404})

    async def _subscribe(self, topic: str) -> None:
        if topic not in self._topics and len(self._topics) >= MAX_TOPICS:
            self._answer({"type": "error", "topic": topic, "code": 429})
            return
        seqs: Seqs = {}
        if is_topic(topic):
            # first into the group, then the number: what happens in between is in the number already
            self._joined.add(topic)
            await self._layer.group_add(group_name(topic), self._channel)
            seqs = await database_sync_to_async(visible)(self._who.actor, [topic])
        if topic in seqs:
            self._topics[topic] = seqs[topic]
            self._answer({"type": "subscribed", "topic": topic, "seq": seqs[topic]})
        else:
            await self._unsubscribe(topic)
            self._answer({"type": "error", "topic": topic, "code": 404})

    async def _unsubscribe(self, topic: str) -> None:
        if topic in self._joined:
            self._topics.pop(topic, None)
            self._outbox.forget(topic)
            await self._layer.group_discard(group_name(topic), self._channel)
            self._joined.discard(topic)

    async def _hear(self) -> Never:
        """Takes hints from the layer."""
        while True:
            message = await self._layer.receive(self._channel)
            if message["type"] == "restored":
                for topic in self._topics:
                    self._outbox.refetch(topic)
            elif message.get("topic") in self._topics:
                self._note(message["topic"], message["hint"])

    def _note(self, topic: str, hint: dict[str, Any]) -> None:
        if hint.get("kind") == "event":
            self._topics[topic] = max(self._topics[topic] or 0, int(hint["seq"]))
        self._outbox.hint(topic, hint)

    async def _speak(self) -> Never:
        """Sends what waits, as fast as the client takes it."""
        while True:
            await self._send({"type": "websocket.send", "text": json.dumps(await self._outbox.take())})

    async def _keep_time(self) -> Never:
        """Pings; ends the socket of a client that is silent or whose token has run out."""
        number = 0
        while True:
            await asyncio.sleep(min(self._timing.ping, max(0.0, self._who.expires_at - time.time())))
            if time.time() >= self._who.expires_at:
                raise Closing(SIGNED_OUT)
            if time.monotonic() - self._heard_at > self._timing.silence:
                raise Closing(SILENT)
            number += 1
            self._answer({"type": "ping", "n": number})

    async def _keep_rights(self) -> Never:
        """Looks again at who this is and what he may watch; also heals a lost hint by the newest number."""
        look = database_sync_to_async(functools.partial(_look_again, self._credentials))
        while True:
            await asyncio.sleep(self._timing.recheck)
            topics = list(self._topics)
            try:
                found = await look(topics)
            except DatabaseError as error:  # a database that is away takes nobody's rights; the next look comes soon
                log.warning("live.recheck_later", error=str(error).strip())
                continue
            if found is None:
                raise Closing(SIGNED_OUT)
            self._who, seqs = found
            for topic in topics:
                if topic not in seqs:
                    await self._unsubscribe(topic)
                    self._answer({"type": "error", "topic": topic, "code": 404})
                elif topic in self._topics and (seqs[topic] or 0) > (self._topics[topic] or 0):
                    self._note(topic, {"kind": "event", "seq": seqs[topic]})

    def _answer(self, message: dict[str, Any]) -> None:
        try:
            self._outbox.answer(message)
        except OutboxFullError:
            raise Closing(TOO_SLOW) from None


def _end_of(task: asyncio.Task[Never]) -> BaseException | None:
    """Returns with what a task ended of itself; None for one that was cancelled or hangs."""
    return task.exception() if task.done() and not task.cancelled() else None


def _look_again(credentials: Credentials, topics: list[str]) -> tuple[Identity, Seqs] | None:
    who = identify(credentials)
    return (who, visible(who.actor, topics)) if who else None


def _parsed(text: str | None) -> dict[str, Any] | None:
    """Returns a command of the protocol; None for anything else."""
    try:
        command = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    if not isinstance(command, dict) or len(command) != 1:
        return None
    (verb, value), *_ = command.items()
    if verb == "pong":
        return command if isinstance(value, int) else None
    return command if verb in ("subscribe", "unsubscribe") and isinstance(value, str) and len(value) < 100 else None
