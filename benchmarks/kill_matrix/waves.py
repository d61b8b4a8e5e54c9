"""One wave: jobs parked at their steps, the fault, the release, and the wait for the end."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any

from apps.workloads.models import Job
from benchmarks.kill_matrix.cell import Cell, Wave
from benchmarks.kill_matrix.client import Client, ClientError, Submission
from benchmarks.kill_matrix.evidence import all_ended, judge, rows
from benchmarks.kill_matrix.faults import UP_WITHIN_S, Fault
from benchmarks.kill_matrix.people import await_nodes
from benchmarks.kill_matrix.room import Room, WaitedInVain, model_of, until
from benchmarks.kill_matrix.steps import STEPS, Step, script
from portal.celery import app as celery

PARKED_WITHIN_S = 90.0
ENDED_WITHIN_S = 240.0
_REDIS_TRIES = 5


def run_wave(room: Room, clients: dict[str, Client], fault: Fault, names: Sequence[str]) -> Wave:
    """Run one wave and judge it; what does not come about in time is a deviation, not an error."""
    wave, began = Wave(fault), time.monotonic()
    try:
        _await_calm(room)
        for client in clients.values():
            client.sign_in()
        for name in names:
            wave.cells.append(_park(room, clients[name], fault, STEPS[name]))
        _strike(room, fault, wave)
        until(lambda: all_ended(wave), "all jobs have ended", seconds=ENDED_WITHIN_S)
    except (WaitedInVain, ClientError) as problem:
        wave.deviations.append(str(problem))
    finally:
        room.release_portal()
        room.release_nodes()
    for cell in wave.cells:
        cell.submission.join(30)
    judge(wave, room, clients)
    _tidy(wave, clients)
    wave.seconds = time.monotonic() - began
    return wave


def _await_calm(room: Room) -> None:
    for report in room.supervisor.reports():
        if report.state != "done":
            room.supervisor.wait_ready(report.name, UP_WITHIN_S)
    await_nodes(room)


def _park(room: Room, client: Client, fault: Fault, step: Step) -> Cell:
    name = f"{fault.name}-{step.name}".lower()
    spec: dict[str, Any] = {
        "name": name, "image": room.image, "gpus": 1, "gpu_model": model_of(step.node), "cpus": 0.1,
        "memory_mib": 64, "shm_mib": 8, "max_retries": 1,
    }  # fmt: skip
    cell = Cell(fault, step, name, Submission(client, spec))
    spec["command"] = ["sh", "-c", script(name, cell.run_s)]
    room.arm(step, name)
    cell.submission.start()
    if step.nudged:
        cell.submission.join(PARKED_WITHIN_S)
        _nudge()
    _await_hit(room, cell)
    return cell


def _nudge() -> None:
    """Send the scheduler its hint, as any relay may: the only one is parked."""
    celery.send_task("scheduling.cycle", args=["kill-matrix", time.time()], queue="scheduling", expires=60)


def _await_hit(room: Room, cell: Cell) -> None:
    def look() -> bool:
        return room.hit(cell.step, cell.job) is not None

    try:
        cell.hit = until(look, f"{cell.job} is parked at {cell.step.name}", seconds=PARKED_WITHIN_S)
    except WaitedInVain as problem:
        cell.deviations.append(str(problem))


def _strike(room: Room, fault: Fault, wave: Wave) -> None:
    fault.begin(room)
    struck = time.monotonic()
    if fault.lost:
        wave.heartbeats = {name: room.heartbeat(name) for name in room.nodes}
    room.release_portal()
    time.sleep(max(0.0, fault.lasts_s - (time.monotonic() - struck)))
    fault.end(room)
    room.release_nodes()


def _tidy(wave: Wave, clients: dict[str, Client]) -> None:
    """Cancel what hangs, so that the next wave is judged by itself."""
    for cell in wave.cells:
        for job in rows(functools.partial(_unended, cell.job)):
            clients[cell.step.name].cancel(str(job.id))


def _unended(name: str) -> list[Job]:
    return list(Job.objects.filter(name=name).exclude(state="ended"))
