"""The API as the server runs it: bodies are limited before the disk, downloads are read as they are sent."""

import asyncio
from typing import Any

import httpx
import pytest
from channels.db import database_sync_to_async as in_thread
from django.db import connection

from apps.workloads.api import streams
from apps.workloads.selectors import stream_read
from portal.asgi import application, http_application
from tests.spine_world import make_node, submit
from tests.world import SPEC, World, job_exits, job_runs

MIB = 1 << 20
BASE = "http://testserver/api/v1"


def client(headers: dict[str, str]) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(http_application), headers=headers, timeout=30)  # type: ignore[arg-type]


async def pieces(data: bytes) -> Any:
    """Sends in pieces, so without a Content-Length."""
    for begin in range(0, len(data), MIB):
        yield data[begin : begin + MIB]


async def test_bodies_are_limited(lasting_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_application, "_upload_limit", 4 * MIB)
    headers = await in_thread(lambda: lasting_world.bob.headers)()
    async with client(headers) as known, client({}) as unknown:
        for content in (b"x" * (3 * MIB), pieces(b"x" * (3 * MIB))):
            answer = await known.post(f"{BASE}/files", content=content)
            assert (answer.status_code, answer.json()["size"]) == (201, 3 * MIB)
        for content in (b"x" * (5 * MIB), pieces(b"x" * (5 * MIB))):
            assert (await known.post(f"{BASE}/files", content=content)).status_code == 413
        for content in (b"x" * (3 * MIB), pieces(b"x")):
            refused = await unknown.post(f"{BASE}/files", content=content)
            assert (refused.status_code, refused.json()["code"]) == (401, "not_authenticated")
            assert refused.headers["WWW-Authenticate"].startswith("Bearer")
        for content in (b" " * (3 * MIB), pieces(b" " * (3 * MIB))):
            long = await known.post(f"{BASE}/jobs", content=content, headers={"Content-Type": "application/json"})
            assert (long.status_code, long.json()["code"]) == (413, "too_large")
        assert (await known.post(f"{BASE}/jobs", json=SPEC)).status_code == 201


def borrowed() -> int:
    """Returns how many connections somebody holds."""
    stats = connection.pool.get_stats()  # type: ignore[attr-defined]
    return int(stats["pool_size"] - stats["pool_available"])


async def test_a_download_is_read_as_it_is_sent_and_holds_no_connection(
    lasting_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = lasting_world

    def prepare() -> tuple[str, dict[str, str]]:
        node = make_node()
        job = submit(world.alice.actor, world.acme)  # type: ignore[arg-type]
        job_exits(node, job_runs(node, job.id), b"0123456789abcdef" * (8 * MIB // 16))
        return str(job.id), world.bob.headers

    job_id, headers = await in_thread(prepare)()
    reads: list[int] = []
    before = borrowed()
    read = stream_read

    def counted(*arguments: Any, **more: Any) -> bytes:
        reads.append(1)
        return read(*arguments, **more)

    monkeypatch.setattr(streams, "stream_read", counted)
    scope = {
        "type": "http", "method": "GET", "path": f"/api/v1/jobs/{job_id}/log/download", "query_string": b"",
        "headers": [(b"host", b"testserver"), (b"authorization", headers["Authorization"].encode())],
        "http_version": "1.1",
    }  # fmt: skip
    sent = asyncio.Queue[dict[str, Any]](maxsize=1)  # a client that takes one message at a time
    told = False

    async def receive() -> dict[str, Any]:
        nonlocal told
        if told:
            await asyncio.Event().wait()
        told = True
        return {"type": "http.request", "body": b""}

    task = asyncio.create_task(application(scope, receive, sent.put))
    start = await asyncio.wait_for(sent.get(), 20)
    assert start["status"] == 200
    body = [(await asyncio.wait_for(sent.get(), 20))["body"]]
    assert len(reads) <= 3
    assert borrowed() == before
    more = True
    while more:
        message = await asyncio.wait_for(sent.get(), 20)
        body.append(message.get("body", b""))
        more = message.get("more_body", False)
    await asyncio.wait_for(task, 20)
    assert len(b"".join(body)) == 8 * MIB
    assert max(map(len, body)) <= MIB
