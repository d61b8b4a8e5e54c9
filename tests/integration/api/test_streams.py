"""Log ranges, downloads and outputs: raw bytes, whatever they are."""

import hashlib
from typing import Any

import pytest

from tests.spine_world import make_node, submit
from tests.world import World, bytes_stand, job_exits, job_runs

LOG = b"epoch 1\r\x1b[31mred\x1b[0m\n\0\xff\xfe" + bytes(range(256)) * 5


def body(answer: Any) -> bytes:
    """Reads a download through the wrapper that serves asynchronous iterators to synchronous clients."""
    return b"".join(answer)


@pytest.fixture
def ended(lasting_world: World) -> str:
    node = make_node()
    job = submit(lasting_world.alice.actor, lasting_world.acme)  # type: ignore[arg-type]
    job_exits(node, job_runs(node, job.id), LOG, outputs=b"a tar of outputs")
    return str(job.id)


def test_before_the_first_attempt_a_log_is_empty(world: World) -> None:
    job = submit(world.alice.actor, world.acme)  # type: ignore[arg-type]
    answer = world.bob.api().get(f"jobs/{job.id}/log")
    assert (answer.status_code, answer.content) == (200, b"")
    assert (answer["Berth-Attempt"], answer["Berth-Length"], answer["Berth-Complete"]) == ("0", "0", "false")
    assert world.bob.api().get(f"jobs/{job.id}/log?attempt=1").status_code == 404
    assert world.bob.api().get(f"jobs/{job.id}/outputs").status_code == 404


def test_a_running_log_is_followed(lasting_world: World) -> None:
    node, api = make_node(), lasting_world.bob.api()
    job = submit(lasting_world.alice.actor, lasting_world.acme)  # type: ignore[arg-type]
    attempt = job_runs(node, job.id)
    bytes_stand(node, attempt, LOG[:100])
    first = api.get(f"jobs/{job.id}/log")
    assert (first.content, first["Berth-Complete"], first.get("Berth-SHA256")) == (LOG[:100], "false", None)
    job_exits(node, attempt, LOG)
    rest = api.get(f"jobs/{job.id}/log?offset=100")
    assert first.content + rest.content == LOG
    assert (rest["Berth-Offset"], rest["Berth-Complete"]) == ("100", "true")
    assert rest["Berth-SHA256"] == hashlib.sha256(LOG).hexdigest()


@pytest.mark.parametrize(
    ("query", "wanted", "offset"),
    [
        ("offset=0&limit=5", LOG[:5], 0),
        ("offset=-7", LOG[-7:], len(LOG) - 7),
        (f"offset=-{2**53}", LOG, 0),
        ("offset=999999", b"", len(LOG)),
        ("attempt=1", LOG, 0),
    ],
)
def test_a_part_of_a_log(lasting_world: World, ended: str, query: str, wanted: bytes, offset: int) -> None:
    answer = lasting_world.bob.api().get(f"jobs/{ended}/log?{query}")
    assert (answer.content, answer["Berth-Offset"]) == (wanted, str(offset))
    assert answer["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=99999999", "offset=x", "attempt=0", "attempt=99999999999", "typo=1"]
)
def test_a_bad_query_is_named(lasting_world: World, ended: str, query: str) -> None:
    answer = lasting_world.bob.api().get(f"jobs/{ended}/log?{query}")
    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == [query.partition("=")[0]]


def test_downloads(lasting_world: World, ended: str) -> None:
    api = lasting_world.bob.api()
    whole = api.get(f"jobs/{ended}/log/download")
    assert (body(whole), whole["Content-Length"]) == (LOG, str(len(LOG)))
    assert whole["Content-Disposition"] == f'attachment; filename="{ended}-1.log"'
    part = api.get(f"jobs/{ended}/log/download", Range="bytes=3-9")
    assert (part.status_code, body(part), part["Content-Range"]) == (206, LOG[3:10], f"bytes 3-9/{len(LOG)}")
    late = api.get(f"jobs/{ended}/log/download", Range=f"bytes={len(LOG)}-")
    assert (late.status_code, late["Content-Range"]) == (416, f"bytes */{len(LOG)}")
    outputs = api.get(f"jobs/{ended}/outputs")
    assert (body(outputs), outputs["Content-Length"]) == (b"a tar of outputs", "16")


def test_usage_and_readings(lasting_world: World, ended: str) -> None:
    api = lasting_world.bob.api()
    (usage,) = api.get(f"jobs/{ended}/usage").json()["results"]
    assert (usage["gpu_count"], usage["gpu_seconds"], usage["source"]) == (1, 2.5, "node")
    assert api.get(f"jobs/{ended}").json()["gpu_seconds"] == 2.5
    assert api.get(f"jobs/{ended}/gpu-readings").json() == {"results": []}
    assert api.get(f"jobs/{ended}/gpu-readings?since=yesterday").status_code == 422
