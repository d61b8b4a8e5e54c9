"""The live socket from the outside: hints, bad manners, slow clients, a Redis that goes away, many at once."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
import redis
from channels.db import database_sync_to_async as in_thread
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import connection

from apps.console import consumers
from apps.console.consumers import BAD, SILENT, TOO_BIG, TOO_SLOW, Timing
from apps.core import hints
from tests.sockets import DEADLINE_S, Socket, connected
from tests.spine_world import submit
from tests.world import World

Job = Any


@pytest.fixture
def job(world: World) -> Job:
    return submit(world.alice.actor, world.acme)  # type: ignore[arg-type]


async def test_events_reach_a_watching_socket(world: World, job: Job) -> None:
    async with connected(world.bob) as socket:
        assert await socket.watch(f"job/{job.id}") == {"type": "subscribed", "topic": f"job/{job.id}", "seq": 1}
        assert await socket.watch(f"jobs/{world.acme.id}") == {
            "type": "subscribed", "topic": f"jobs/{world.acme.id}", "seq": None,
        }  # fmt: skip
        await in_thread(lambda: world.alice.api().post(f"jobs/{job.id}/cancel"))()
        heard = {m["topic"]: m["hint"] for m in (await socket.next(), await socket.next())}
        assert heard == {
            f"job/{job.id}": {"kind": "event", "seq": 2},
            f"jobs/{world.acme.id}": {"kind": "list", "id": str(job.id)},
        }


async def test_an_idle_socket_still_hears(world: World, job: Job) -> None:
    """redis-py's own timeout of 5 s kills the blocking reads of channels_redis' core layer (LIBRARIES, trap 1).

    Measured: the core layer dies so; over pub/sub, which is ours, the socket must outlive it with any timeout.
    """
    async with connected(world.bob) as socket:
        await socket.watch(f"job/{job.id}")
        await asyncio.sleep(11)  # the trap is about time itself: longer than twice redis-py's 5 s
        hints.publish(f"job/{job.id}", {"kind": "sample"})
        assert (await socket.next())["hint"] == {"kind": "sample"}


async def test_unsubscribed_is_unheard(world: World, job: Job) -> None:
    async with connected(world.bob) as socket:
        await socket.watch(f"job/{job.id}")
        await socket.say(unsubscribe=f"job/{job.id}")
        await socket.watch(f"jobs/{world.acme.id}")  # answered in order: the unsubscribing is done
        hints.publish(f"job/{job.id}", {"kind": "sample"})
        hints.publish(f"jobs/{world.acme.id}", {"kind": "list", "id": "x"})
        assert (await socket.next())["topic"] == f"jobs/{world.acme.id}"


async def test_a_lost_hint_is_healed_at_the_next_look(world: World, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(world.bob, Timing(recheck=0.2)) as socket:
        await socket.watch(f"job/{job.id}")
        monkeypatch.setattr(hints, "publish", lambda topic, hint: None)
        await in_thread(lambda: world.alice.api().post(f"jobs/{job.id}/cancel"))()
        assert (await socket.next())["hint"] == {"kind": "event", "seq": 2}


NO_JSON = ["", "{", "[" * 3000, "\0"]
NO_COMMAND = [
    '{"pong": "x"}',
    "[]",
    "{}",
    "null",
    '"x"',
    '{"subscribe": 1}',
    '{"subscribe":"a","unsubscribe":"b"}',
    '{"x":"y"}',
]


async def test_garbage_is_answered_and_then_ends_the_socket(world: World) -> None:
    async with connected(world.bob) as socket:
        for text in NO_JSON + NO_COMMAND:
            await socket.send(text)
            assert await socket.next() == {"type": "error", "topic": None, "code": 400}
        assert (await socket.watch(f"jobs/{world.acme.id}"))["type"] == "subscribed"
        for _ in range(consumers.MAX_BAD):
            await socket.raw.send_input({"type": "websocket.receive", "bytes": b"\xff\xfe"})
        assert await socket.closed() == BAD


async def test_a_long_message_ends_the_socket(world: World) -> None:
    async with connected(world.bob) as socket:
        await socket.send("x" * 5000)
        assert await socket.closed() == TOO_BIG


async def test_topics_are_limited(world: World, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "MAX_TOPICS", 1)
    async with connected(world.bob) as socket:
        await socket.watch(f"job/{job.id}")
        assert (await socket.watch(f"job/{job.id}"))["type"] == "subscribed"
        assert (await socket.watch(f"jobs/{world.acme.id}"))["code"] == 429


async def test_pings_and_silence(world: World) -> None:
    async with connected(world.bob, Timing(ping=0.05, silence=0.4)) as socket:
        assert [(await socket.anything())["n"] for _ in range(3)] == [1, 2, 3]
        await socket.say(pong=3)
        assert await socket.closed() == SILENT


async def test_a_client_that_takes_nothing_is_cut(world: World) -> None:
    """It asks and asks but never reads: at most a bounded number of answers wait, then it goes."""
    token = await in_thread(lambda: world.bob.token)()
    taken, stuck = asyncio.Queue[dict[str, Any]](), asyncio.Event()
    inbox = asyncio.Queue[dict[str, Any]]()
    inbox.put_nowait({"type": "websocket.connect"})

    async def send(message: dict[str, Any]) -> None:
        taken.put_nowait(message)
        if message["type"] == "websocket.send":
            await stuck.wait()

    scope = {"type": "websocket", "headers": [(b"authorization", f"Bearer {token}".encode())], "subprotocols": []}
    socket = asyncio.create_task(consumers.live(scope, inbox.get, send))
    assert (await taken.get())["type"] == "websocket.accept"
    for number in range(consumers.MAX_WAITING - 1):
        inbox.put_nowait({"type": "websocket.receive", "text": json.dumps({"subscribe": f"none/{number}"})})
    await asyncio.wait_for(socket, DEADLINE_S)
    codes = [taken.get_nowait() for _ in range(taken.qsize())]
    assert codes[-1] == {"type": "websocket.close", "code": TOO_SLOW}
    assert len(codes) == 2


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition with a deadline."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.02)


async def test_a_slow_client_is_told_to_refetch(world: World, job: Job) -> None:
    token = await in_thread(lambda: world.bob.token)()
    taken, slow = [], asyncio.Event()
    inbox = asyncio.Queue[dict[str, Any]]()
    inbox.put_nowait({"type": "websocket.connect"})
    topic = f"job/{job.id}"

    async def send(message: dict[str, Any]) -> None:
        taken.append(json.loads(message["text"]) if "text" in message else message)
        if len(taken) > 2:
            await slow.wait()

    scope = {"type": "websocket", "headers": [(b"authorization", f"Bearer {token}".encode())], "subprotocols": []}
    socket = asyncio.create_task(consumers.live(scope, inbox.get, send))
    inbox.put_nowait({"type": "websocket.receive", "text": json.dumps({"subscribe": topic})})
    await until(lambda: len(taken) == 2)
    layer = get_channel_layer()
    for number in range(300):
        hint = {"kind": "log", "attempt": str(number), "stream": 0, "offset": 1}
        await layer.group_send(hints.group_name(topic), {"type": "hint", "topic": topic, "hint": hint})
    slow.set()
    await until(lambda: {"type": "refetch", "topic": topic} in taken)
    assert len(taken) < 110
    inbox.put_nowait({"type": "websocket.disconnect"})
    await asyncio.wait_for(socket, DEADLINE_S)


async def test_after_redis_was_away_all_is_refetched_and_heard(world: World, job: Job) -> None:
    """What was published while the subscription was cut is lost; the client learns that it must read anew."""
    topic = f"job/{job.id}"
    async with connected(world.bob) as socket:
        await socket.watch(topic)
        with redis.Redis.from_url(str(settings.CACHES["default"]["LOCATION"])) as admin:
            # other runs use other databases of the same server
            database = str(admin.client_info()["db"])
            own = [c["id"] for c in admin.client_list(_type="pubsub") if str(c["db"]) == database]
            assert [admin.client_kill_filter(_id=key) for key in own] == [1] * len(own) != []
        assert await socket.next() == {"type": "refetch", "topic": topic}
        hints.publish(topic, {"kind": "sample"})
        assert (await socket.next())["hint"] == {"kind": "sample"}


async def test_leaving_leaves_nothing_behind(world: World, job: Job) -> None:
    layer = get_channel_layer()._get_layer()
    async with connected(world.bob) as socket:
        await socket.watch(f"job/{job.id}")
        assert len(layer.groups) == 1
    assert (layer.groups, layer.channels) == ({}, {})
    assert not layer._shards[0]._subscribed_to


async def test_two_hundred_sockets_do_not_exhaust_the_pool(world: World, job: Job) -> None:
    token = await in_thread(lambda: world.bob.token)()
    sockets = [Socket([(b"authorization", f"Bearer {token}".encode())], timing=Timing(recheck=0.5)) for _ in range(200)]
    await asyncio.gather(*(socket.open() for socket in sockets))
    answers = await asyncio.gather(*(socket.watch(f"job/{job.id}") for socket in sockets))
    assert {answer["type"] for answer in answers} == {"subscribed"}
    await in_thread(lambda: world.alice.api().post(f"jobs/{job.id}/cancel"))()
    heard = await asyncio.gather(*(socket.next() for socket in sockets))
    assert [m["hint"] for m in heard] == [{"kind": "event", "seq": 2}] * 200
    stats = connection.pool.get_stats()  # type: ignore[attr-defined]
    assert stats["pool_size"] <= stats["pool_max"] == 8
    assert stats.get("requests_errors", 0) == 0
    await asyncio.gather(*(socket.leave() for socket in sockets))
