"""Much and fast: the bytes here are the node's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from portal.sandbox import SandboxNode
from tests.nodes.agent_fixtures import world_of
from tests.nodes.agent_world import World
from workers.agent.spool import SEGMENT_BYTES, SPOOL_BYTES
from workers.nodeops import AGENT_HOME

pytestmark = [pytest.mark.nodes, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def world(sandbox_node: SandboxNode, sandbox_image: str) -> Iterator[World]:
    world = world_of(sandbox_node, sandbox_image)
    try:
        yield world
    finally:
        world.close()


def run(world: World, script: str, *, least: int) -> str:
    """Run a script in a container; returns the SHA-256 of what it is known to have written."""
    attempt = world.start("sh", "-c", f"{script}; {script} | sha256sum > /berth/out/digest")
    end = world.ended(attempt, 200)
    assert end.data["exit_code"] == 0
    world.check_hash(attempt, end)
    assert len(world.log(attempt)) >= least
    digest = hashlib.sha256(world.hub.streams[attempt, 0]).hexdigest()
    assert digest.encode() in bytes(world.hub.streams[attempt, 1]), "the log is not what the container wrote"
    assert world.op("attempt_remove", attempt_id=str(attempt)).ok
    return digest


def test_a_line_of_100_mb(world: World) -> None:
    assert run(world, "head -c 100000000 /dev/zero | tr '\\0' x", least=100_000_000)


def test_ten_million_lines_as_fast_as_they_come(world: World) -> None:
    assert run(world, "yes 'step loss 0.125' | head -n 10000000", least=160_000_000)


def test_one_gigabyte(world: World) -> None:
    assert run(world, "yes 'all work and no play makes a dull log' | head -c 1000000000", least=1_000_000_000)


def test_a_full_spool_holds_the_container_back_and_loses_nothing(
    world: World, sandbox_node: SandboxNode, sandbox_image: str
) -> None:
    size = SPOOL_BYTES + 3 * SEGMENT_BYTES
    attempt = world.start("sh", "-c", f"sleep 1; yes 0123456789abcde | head -c {size}")
    world.running(attempt)
    world.detach()
    folder = f"{AGENT_HOME}/record/attempts/{attempt}/log"

    def used() -> int:
        return int(world.sh(f"du -sb --apparent-size {folder} | cut -f1"))

    world.until(lambda: used() >= SPOOL_BYTES, 120, "a full spool")
    assert used() <= SPOOL_BYTES + SEGMENT_BYTES + (1 << 20)
    assert "Up" in world.sh(f"podman ps --filter name=berth-{attempt} --format '{{{{.Status}}}}'")
    world.attach()
    end = world.ended(attempt, 120)
    world.check_hash(attempt, end)
    assert world.log(attempt) == b"0123456789abcde\n" * (size // 16)
    forgetful = world_of(sandbox_node, sandbox_image)  # as a portal whose database was restored from before
    try:
        assert forgetful.op("noop").ok
        assert forgetful.hub.gaps == len(forgetful.log(attempt)) == 0
        assert forgetful.op("attempt_remove", attempt_id=str(attempt)).ok
    finally:
        forgetful.close()
