"""What is killed, cut or upgraded under a running attempt must not be seen in its record."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from portal.sandbox import SandboxNode
from tests.nodes.agent_fixtures import world_of
from tests.nodes.agent_world import World
from workers.agent import build
from workers.nodeops import AGENT_HOME

pytestmark = [pytest.mark.nodes, pytest.mark.timeout(180)]

# Two million bytes in three seconds, with all kinds of bytes; the same each time.
WRITER = r"""
i=0
while [ $i -lt 60 ]; do
  printf 'step %d \000\377\r' $i
  head -c 33000 /bin/busybox
  sleep 0.05
  i=$((i+1))
done
printf 'no newline'
exit 9
"""


@pytest.fixture
def world(sandbox_node: SandboxNode, sandbox_image: str) -> Iterator[World]:
    world = world_of(sandbox_node, sandbox_image)
    try:
        yield world
    finally:
        world.close()


def expected(world: World) -> bytes:
    """What WRITER writes, by the same shell without an agent."""
    command = shlex.join(["podman", "run", "--rm", "--log-driver=none", world.image, "sh", "-c", WRITER])
    result = world.transport.exec(command, timeout_s=60)
    assert result.rc == 9, result.stderr
    return result.stdout


def more_bytes(world: World, attempt: uuid.UUID) -> None:
    heard = len(world.log(attempt))
    world.hub.wait(lambda: len(world.log(attempt)) > heard)


def check(world: World, attempt: uuid.UUID, states: tuple[str, ...] = ("preparing", "running", "exited")) -> None:
    end = world.ended(attempt)
    assert (end.state, end.data["exit_code"]) == ("exited", 9)
    world.check_hash(attempt, end)
    assert world.log(attempt) == expected(world)
    assert [len(world.journal(attempt, event)) for event in ("create", "start", "exit")] == [1, 1, 1]
    assert world.hub.states(attempt) == list(states)
    assert world.hub.gaps == 0


def test_agent_killed_again_and_again_in_mid_log(world: World) -> None:
    attempt = world.start("sh", "-c", WRITER)
    world.running(attempt)
    for _ in range(3):
        more_bytes(world, attempt)
        world.kill_agent()
        world.attach()
    check(world, attempt)


def test_container_ends_while_no_agent_runs(world: World) -> None:
    attempt = world.start("sh", "-c", WRITER)
    world.hub.wait(lambda: len(world.log(attempt)) > 1_200_000)  # what is still to come fits into the FIFO
    world.kill_agent()
    world.until(lambda: "Exited" in world.sh(f"podman ps -a --filter name=berth-{attempt} --format '{{{{.Status}}}}'"))
    world.attach()
    check(world, attempt)
    end = world.hub.last(attempt)
    assert end is not None
    assert 3_000_000_000 < end.data["ran_ns"] < end.at_mono_ns - end.data["started_mono_ns"]


def test_agent_killed_while_it_starts_a_container(world: World) -> None:
    """At any moment of podman's run: the next agent finds what the first one left and starts nothing twice."""
    for delay in ("0", "0.05", "0.1", "0.15", "0.2", "0.3"):
        spec = world.spec("sh", "-c", "echo once; exit 9")
        attempt = uuid.UUID(spec["attempt_id"])
        assert world.op("attempt_start", **spec).ok
        world.sh(f"sleep {delay}; kill -9 {world.daemon_pid()}")
        world.hub.wait(lambda: not world.linked)
        world.attach()
        end = world.ended(attempt)
        assert (end.state, end.data["exit_code"]) == ("exited", 9)
        assert world.log(attempt) == b"once\n"
        assert "2147483647" not in world.sh("pgrep -af sleep; true")
        assert len(world.journal(attempt, "start")) == 1
        assert (
            world.sh(
                f"podman events --stream=false --since 5m --filter container=berth-{attempt}"
                " --filter event=start | wc -l"
            ).strip()
            == "1"
        )


def test_upgrade_under_a_running_attempt(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = world.start("sh", "-c", WRITER)
    world.hub.wait(lambda: len(world.log(attempt)) > 1000)
    older = world.daemon_pid()
    monkeypatch.setattr(build, "_MAIN", build._MAIN + b"# a newer version\n")
    world.agent = build.build(tmp_path)
    world.detach()
    world.attach()
    assert world.hub.hellos[-1].version == world.agent.version != world.hub.hellos[0].version
    assert world.daemon_pid() != older
    check(world, attempt)


def test_link_cut_and_another_link_takes_over(world: World, sandbox_node: SandboxNode, sandbox_image: str) -> None:
    attempt = world.start("sh", "-c", WRITER)
    world.hub.wait(lambda: len(world.log(attempt)) > 1000)
    second = world_of(sandbox_node, sandbox_image)  # a newer token: the first link is told and closed
    try:
        world.hub.wait(lambda: bool(world.hub.closed))
        assert "superseded" in world.hub.closed[-1]
        check(second, attempt, ("exited",))
    finally:
        second.close()
    world.detach()


def test_partition_heals_and_nothing_is_lost(world: World, sandbox_node: SandboxNode) -> None:
    attempt = world.start("sh", "-c", WRITER)
    world.hub.wait(lambda: len(world.log(attempt)) > 1000)
    sandbox_node.partition()
    try:
        world.hub.wait(lambda: not world.linked, 30)
    finally:
        sandbox_node.heal()
    world.detach()
    world.transport.close()
    world.attach()
    check(world, attempt)


def test_power_cut_is_a_loss_up_to_the_last_heartbeat(
    fresh_node: Callable[..., SandboxNode], sandbox_image: str
) -> None:
    node = fresh_node()
    world = world_of(node, sandbox_image)
    try:
        attempt = world.start("sh", "-c", "echo up; sleep 1000")
        started = world.running(attempt).data["started_mono_ns"]
        alive = len(world.hub.alive)
        world.hub.wait(lambda: len(world.hub.alive) > alive + 2)
        node.power_cut()
        last_heard = world.hub.alive[-1]
        world.detach()
        world.transport.close()
        node.boot()
        world.attach()
        end = world.ended(attempt)
        assert (end.state, end.data["reason"]) == ("lost", "reboot")
        assert end.data["lost_boot_id"] == last_heard.boot_id != end.boot_id == node.boot_id()
        assert end.data["ran_ns"] == end.data["last_alive_mono_ns"] - started
        assert 0 <= end.data["last_alive_mono_ns"] - last_heard.mono_ns < 2_000_000_000
        assert world.log(attempt) == b"up\n"
        assert world.op("attempt_remove", attempt_id=str(attempt)).ok
        assert world.sh("podman ps -aq") == ""
        again = world.start("true")
        assert world.ended(again).data["exit_code"] == 0
    finally:
        world.close()


def test_a_container_taken_away_is_lost(world: World) -> None:
    attempt = world.start("sh", "-c", "echo up; sleep 1000")
    started = world.running(attempt).data["started_mono_ns"]
    world.hub.wait(lambda: bool(world.hub.alive) and world.hub.alive[-1].mono_ns > started)
    world.kill_agent()
    world.sh(f"podman rm -f -t 0 berth-{attempt}")
    world.attach()
    end = world.ended(attempt)
    assert (end.state, end.data["reason"]) == ("lost", "container_gone")
    assert 0 < end.data["ran_ns"] <= world.hub.alive[-1].mono_ns - started
    assert world.log(attempt) == b"up\n"


def test_statuses_and_results_come_again_until_acknowledged(world: World) -> None:
    spec = world.spec("true")
    assert world.op("attempt_start", op_id="op-1", token=5, **spec).ok
    attempt = uuid.UUID(spec["attempt_id"])
    world.ended(attempt)
    again = world.op("attempt_start", op_id="op-1", token=6, **spec)
    assert (again.ok, again.token) == (True, 6)
    world.detach()
    world.attach()
    mine = [one for one in world.hub.hellos[-1].attempts if one["attempt"] == str(attempt)]
    assert mine[0]["state"] == "exited"
    assert world.sh(f"ls {AGENT_HOME}/record/results") == ""
