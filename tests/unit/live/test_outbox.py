"""The queue of one client."""

import asyncio
from typing import Any

import pytest

from apps.console.live.outbox import Outbox, OutboxFullError


async def drained(box: Outbox) -> list[dict[str, Any]]:
    """Takes all that waits."""
    found: list[dict[str, Any]] = []
    while True:
        take = asyncio.ensure_future(box.take())
        await asyncio.sleep(0)
        if not take.done():
            take.cancel()
            return found
        found.append(take.result())


async def test_hints_of_one_kind_collapse_into_the_newest() -> None:
    box = Outbox()
    for seq in range(1000):
        box.hint("job/1", {"kind": "event", "seq": seq})
    box.hint("job/1", {"kind": "log", "attempt": "a", "stream": 0, "offset": 1})
    box.hint("job/1", {"kind": "log", "attempt": "a", "stream": 1, "offset": 2})
    assert [m["hint"] for m in await drained(box)] == [
        {"kind": "event", "seq": 999},
        {"kind": "log", "attempt": "a", "stream": 0, "offset": 1},
        {"kind": "log", "attempt": "a", "stream": 1, "offset": 2},
    ]


async def test_a_full_queue_turns_into_one_refetch_per_topic() -> None:
    box = Outbox(limit=2)
    for kind in ("a", "b", "c", "d"):
        box.hint("job/1", {"kind": kind})
    box.hint("job/2", {"kind": "a"})
    assert await drained(box) == [
        {"type": "refetch", "topic": "job/1"},
        {"type": "hint", "topic": "job/2", "hint": {"kind": "a"}},
    ]
    box.hint("job/1", {"kind": "a"})
    assert [m["type"] for m in await drained(box)] == ["hint"]


async def test_answers_go_first_and_are_bounded() -> None:
    box = Outbox(limit=2)
    box.hint("job/1", {"kind": "a"})
    box.answer({"n": 1})
    box.answer({"n": 2})
    with pytest.raises(OutboxFullError):
        box.answer({"n": 3})
    assert [m.get("n") for m in await drained(box)] == [1, 2, None]


async def test_what_is_forgotten_is_not_sent() -> None:
    box = Outbox()
    box.hint("job/1", {"kind": "a"})
    box.refetch("job/2")
    box.forget("job/1")
    box.forget("job/2")
    assert await drained(box) == []
