"""The columns: what is done to the parts while jobs are parked."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import redis as redis_client

from benchmarks.kill_matrix.room import Room, until
from portal import embedded
from portal.sandbox import SandboxNode

UP_WITHIN_S = 120.0
_AGENTS = "grep -lzx daemon /proc/[0-9]*/cmdline"


def _nothing(room: Room) -> None:
    """Nothing needs to be done."""


@dataclass(frozen=True)
class Fault:
    """`begin` strikes while the jobs are parked; they are released, and `end` comes `lasts_s` seconds after."""

    name: str
    what: str
    begin: Callable[[Room], None]
    end: Callable[[Room], None] = _nothing
    lasts_s: float = 0.0
    lost: frozenset[str] = frozenset()  # steps at which the attempt is lost with its node


def _kill(process: str) -> Fault:
    def begin(room: Room) -> None:
        supervisor = room.supervisor
        pid = supervisor.report(process).pid
        supervisor.kill(process)
        until(lambda: supervisor.report(process).pid != pid, f"{process} is gone", seconds=10)

    return Fault(process, f"{process}: SIGKILL", begin, lambda room: _await_ready(room, process))


def _await_ready(room: Room, process: str) -> None:
    supervisor = room.supervisor
    until(lambda: supervisor.report(process).state == "ready", f"{process} is ready again", seconds=UP_WITHIN_S)


def _restart(room: Room, process: str) -> None:
    before = room.supervisor.report(process).restarts
    room.supervisor.restart(process)
    if not room.supervisor.wait_ready(process, UP_WITHIN_S, restarts=before + 1):
        raise TimeoutError(f"{process} did not come back within {UP_WITHIN_S:.0f} s")


def _flush_redis(room: Room) -> None:
    with redis_client.Redis.from_url(embedded.resolve(room.env).redis_url) as client:
        client.flushall()
    _restart(room, "redis")


def _on_all(room: Room, act: Callable[[SandboxNode], None]) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(act, room.nodes.values()))


def _kill_agents(room: Room) -> None:
    for node in room.nodes.values():
        done = node.run(["sh", "-c", f"for f in $({_AGENTS}); do f=${{f#/proc/}}; kill -9 ${{f%/*}}; echo $f; done"])
        if not done.stdout.strip():
            raise RuntimeError(f"{node.name}: no agent was found to kill: {done.stderr}")


FAULTS = {
    fault.name: fault
    for fault in (
        _kill("web"),
        _kill("relay"),
        _kill("scheduler"),
        _kill("nodes"),
        Fault("redis", "redis: FLUSHALL and restart", _flush_redis),
        Fault("postgres", "PostgreSQL: restart", lambda room: _restart(room, "postgres")),
        Fault(
            "partition", "nodes partitioned for 60 s", lambda room: _on_all(room, SandboxNode.partition),
            lambda room: _on_all(room, SandboxNode.heal), lasts_s=60,
        ),
        Fault(
            "power", "nodes: power cut and boot", lambda room: _on_all(room, SandboxNode.power_cut),
            lambda room: _on_all(room, SandboxNode.boot), lasts_s=5,
            lost=frozenset({"S9a", "S9b", "S9c", "S9d", "S10", "S11"}),
        ),
        Fault("agent", "agents: SIGKILL", _kill_agents),
        Fault(
            "freeze", "nodes frozen for 30 s", lambda room: _on_all(room, SandboxNode.freeze),
            lambda room: _on_all(room, SandboxNode.thaw), lasts_s=30,
        ),
    )
}  # fmt: skip
