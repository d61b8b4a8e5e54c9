"""What waits to be sent to one client: bounded, so that a slow client costs memory only up to a limit."""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

LIMIT = 100

Message = dict[str, Any]


class OutboxFullError(Exception):
    """The client does not even take the answers to its own requests."""


class Outbox:
    """Answers go first, then refetches, then hints; hints of one topic and kind collapse into the newest.

    A hint that finds the queue full is dropped with its topic's waiting hints: one `refetch` stands for all of them.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._answers: deque[Message] = deque()
        self._refetch: dict[str, None] = {}
        self._hints: dict[tuple[str, str], Message] = {}
        self._filled = asyncio.Event()

    def answer(self, message: Message) -> None:
        """Queues an answer; raises OutboxFullError when too many wait."""
        if len(self._answers) >= self._limit:
            raise OutboxFullError
        self._answers.append(message)
        self._filled.set()

    def hint(self, topic: str, hint: Mapping[str, Any]) -> None:
        """Queues a hint."""
        if topic in self._refetch:
            return
        key = (topic, f"{hint.get('kind')}/{hint.get('attempt', '')}/{hint.get('stream', '')}")
        if key not in self._hints and len(self._hints) >= self._limit:
            self.refetch(topic)
            return
        self._hints[key] = {"type": "hint", "topic": topic, "hint": dict(hint)}
        self._filled.set()

    def refetch(self, topic: str) -> None:
        """Queues the demand to read a topic anew; its waiting hints are covered by that."""
        self.forget(topic)
        self._refetch[topic] = None
        self._filled.set()

    def forget(self, topic: str) -> None:
        """Drops what waits for a topic."""
        self._refetch.pop(topic, None)
        for key in [key for key in self._hints if key[0] == topic]:
            del self._hints[key]

    async def take(self) -> Message:
        """Waits for the next message and removes it."""
        while True:
            await self._filled.wait()
            if self._answers:
                return self._answers.popleft()
            if self._refetch:
                topic = next(iter(self._refetch))
                del self._refetch[topic]
                return {"type": "refetch", "topic": topic}
            if self._hints:
                return self._hints.pop(next(iter(self._hints)))
            self._filled.clear()
