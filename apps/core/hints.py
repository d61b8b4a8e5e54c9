"""Hints to live pages: `{topic, seq or offset}` over Channels; a lost hint costs nothing but time.

Publishing never blocks and never fails its caller. Hints of one topic and kind that wait together collapse
into the newest, so a burst of a million log chunks costs a few messages.
"""

import asyncio
import threading
from typing import Any

import structlog
from channels.layers import get_channel_layer
from django.db import transaction

log = structlog.get_logger(__name__)

MAX_WAITING = 10_000


def group_name(topic: str) -> str:
    """Returns the channel group of a topic such as `job/<uuid>`."""
    return "topic." + topic.replace("/", ".")


class _Publisher:
    """One thread with an event loop that sends what waits; started with the first hint of the process."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def put(self, topic: str, hint: dict[str, Any]) -> None:
        with self._lock:
            if len(self._waiting) < MAX_WAITING:
                # a log and an outputs stream of one job are two things to follow
                self._waiting[topic, f"{hint.get('kind')}/{hint.get('attempt', '')}/{hint.get('stream', '')}"] = hint
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hints", daemon=True)
                self._thread.start()
        self._wake.set()

    def _run(self) -> None:
        loop = asyncio.new_event_loop()
        while True:
            self._wake.wait()
            self._wake.clear()
            with self._lock:
                batch, self._waiting = self._waiting, {}
            try:
                loop.run_until_complete(self._send(batch))
            except Exception as error:  # a broken Redis must not stop the thread: pages refetch by themselves
                log.warning("hints.lost", count=len(batch), error=str(error))

    async def _send(self, batch: dict[tuple[str, str], dict[str, Any]]) -> None:
        layer = get_channel_layer()
        if layer is None:
            return
        for (topic, _), hint in batch.items():
            await layer.group_send(group_name(topic), {"type": "hint", "topic": topic, "hint": hint})


_publisher = _Publisher()


def publish(topic: str, hint: dict[str, Any]) -> None:
    """Sends a hint soon; `hint` is small and carries `kind` and a `seq`, `offset` or `id`."""
    _publisher.put(topic, hint)


def publish_on_commit(topic: str, hint: dict[str, Any]) -> None:
    """Sends a hint after the open transaction has committed."""
    transaction.on_commit(lambda: publish(topic, hint))
