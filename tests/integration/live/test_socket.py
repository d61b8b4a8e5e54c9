"""The live socket from the outside."""

import asyncio

from asgiref.sync import sync_to_async

from apps.core import hints
from tests.sockets import connected
from tests.spine_world import submit
from tests.world import World


async def test_events_reach_a_watching_socket(world: World) -> None:
    job = await sync_to_async(submit)(world.alice.actor, world.acme)
    async with connected(world.bob) as socket:
        assert await socket.watch(f"job/{job.id}") == {"type": "subscribed", "topic": f"job/{job.id}", "seq": 1}
        await sync_to_async(lambda: world.alice.api().post(f"jobs/{job.id}/cancel"))()
        hint = {"type": "hint", "topic": f"job/{job.id}", "hint": {"kind": "event", "seq": 2}}
        assert await socket.next() == hint


async def test_an_idle_socket_still_hears(world: World) -> None:
    """redis-py's own timeout of 5 s would cut the layer's subscription (LIBRARIES, trap 1)."""
    job = await sync_to_async(submit)(world.alice.actor, world.acme)
    async with connected(world.bob) as socket:
        await socket.watch(f"job/{job.id}")
        await asyncio.sleep(11)  # the trap is about time itself: longer than twice redis-py's 5 s
        hints.publish(f"job/{job.id}", {"kind": "sample"})
        assert (await socket.next())["hint"] == {"kind": "sample"}
