"""The channel layer over a Redis of its own that is stopped and started again."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import redis
from redis.asyncio import Redis

from apps.core.layer import RESTORED, HintLayer
from portal.embedded import binaries

DEADLINE_S = 20.0
HINT = {"type": "hint", "topic": "t", "hint": {"kind": "sample"}}


@contextlib.asynccontextmanager
async def server(folder: Path) -> AsyncIterator[str]:
    """Runs the embedded server's program on a socket in the folder; yields its URL."""
    socket = folder / "own.sock"
    options = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder), "--logfile", "log"]
    process = subprocess.Popen([str(binaries.redis_server(None)), *options])
    url = f"unix://{socket}"
    try:
        async with asyncio.timeout(DEADLINE_S), Redis.from_url(url) as client:
            while True:
                with contextlib.suppress(redis.ConnectionError):
                    if await client.ping():
                        break
                await asyncio.sleep(0.02)
        yield url
    finally:
        process.kill()
        process.wait(DEADLINE_S)


async def test_the_layer_outlives_its_redis(open_folder: Callable[[str], Path]) -> None:
    folder = open_folder("redis")
    async with server(folder) as url:
        layer = HintLayer(hosts=[{"address": url, "socket_timeout": None}])
        channel = await layer.new_channel()
        await layer.group_add("topic.t", channel)
        await layer.group_send("topic.t", HINT)
        assert await asyncio.wait_for(layer.receive(channel), DEADLINE_S) == HINT
    waiting = asyncio.create_task(layer.receive(channel))
    await asyncio.sleep(0)
    async with server(folder):
        assert await asyncio.wait_for(waiting, DEADLINE_S) == RESTORED
        await layer.group_send("topic.t", HINT)
        while (heard := await asyncio.wait_for(layer.receive(channel), DEADLINE_S)) == RESTORED:
            pass
        assert heard == HINT
        await layer.flush()
