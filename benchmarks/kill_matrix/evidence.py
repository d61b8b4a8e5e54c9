"""What became of the jobs: the portal's rows and bytes against the nodes' own records."""

from __future__ import annotations

import contextlib
import email
import email.policy
import hashlib
import time
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import Error, connection

from apps.billing.models import UsageInterval
from apps.core.models import Event, OutboxMessage
from apps.core.tenancy import system_scope
from apps.fleet.models import GpuDevice, Node, NodeOperation
from apps.notifications.models import Notification
from apps.tenants.models import QuotaUse
from apps.workloads.models import Allocation, AllocationDevice, Attempt, ByteStream, Job
from benchmarks.kill_matrix.cell import Cell, Wave
from benchmarks.kill_matrix.client import Client
from benchmarks.kill_matrix.room import Room, WaitedInVain, until
from benchmarks.kill_matrix.steps import expected_log

CLEAN_WITHIN_S = 120.0
_MILLISECOND = 0.001
_LIVE = ("queued", "claimed")
T = TypeVar("T")


def rows(read: Callable[[], T]) -> T:
    """Read in one transaction over all tenants; a connection that a restart has cut is replaced."""
    for _ in range(20):
        try:
            with system_scope():
                return read()
        except Error:
            connection.close()
            time.sleep(0.5)
    with system_scope():
        return read()


def all_ended(wave: Wave) -> bool:
    """Say whether each job of the wave exists and has ended."""
    names = [cell.job for cell in wave.cells]
    return rows(lambda: Job.objects.filter(name__in=names, state="ended").count()) >= len(names)


def judge(wave: Wave, room: Room, clients: dict[str, Client]) -> None:
    """Fill the cells with what was found and what of it deviates."""
    leftovers = _settled_leftovers(room)
    journals = {name: room.journal(name) for name in room.nodes}
    for cell in wave.cells:
        _judge_cell(cell, wave, journals[cell.step.node], clients[cell.step.name])
        cell.expect(cell.submission.job is not None, f"the client has no answer: {cell.submission.error or 'waiting'}")
        if cell.fault.name == "web" and cell.step.point in ("S1", "S2"):
            cell.expect(cell.submission.repeats, "the client's request outlived the web process")
        _judge_mail(cell, room)
        cell.leftovers = "none" if not leftovers else f"{len(leftovers)}"
    wave.deviations += [f"left over: {one}" for one in leftovers]


def _judge_cell(cell: Cell, wave: Wave, journal: list[dict[str, Any]], client: Client) -> None:
    jobs = rows(lambda: list(Job.objects.filter(name=cell.job)))
    cell.expect(len(jobs) == 1, f"{len(jobs)} jobs instead of one")
    if not jobs:
        cell.end = "no job"
        return
    job = jobs[0]
    attempts = rows(lambda: list(Attempt.objects.filter(job=job).order_by("no")))
    ends = [attempt.end_reason or attempt.state for attempt in attempts]
    cell.end = f"{job.result or job.state} [{', '.join(ends)}]"
    wanted = ["node_lost", "exited"] if cell.lost else ["exited"]
    cell.expect(job.result == "succeeded", f"the job is {job.result or job.state} {job.end_detail}")
    cell.expect(ends == wanted, f"attempts {ends} instead of {wanted}")
    seqs = rows(lambda: list(Event.objects.filter(object_id=job.id).order_by("seq").values_list("seq", flat=True)))
    cell.expect(seqs == list(range(1, len(seqs) + 1)) and job.seq == len(seqs), f"events have gaps: {seqs}")
    _judge_starts(cell, attempts, journal)
    for attempt in attempts:
        _judge_log(cell, attempt, client, str(job.id))
        _judge_usage(cell, attempt, wave, journal)


def _judge_starts(cell: Cell, attempts: list[Attempt], journal: list[dict[str, Any]]) -> None:
    counts = []
    for attempt in attempts:
        lines = [line for line in journal if line["attempt"] == str(attempt.id)]
        starts = sum(line["event"] == "start" for line in lines)
        containers = {line["container"] for line in lines if line["event"] in ("create", "start") and line["container"]}
        counts.append(str(starts))
        right = starts <= 1 if attempt.end_reason == "node_lost" else starts == 1
        cell.expect(right, f"attempt {attempt.no} was started {starts} times by the node's record")
        cell.expect(len(containers) <= 1, f"attempt {attempt.no} had {len(containers)} containers")
    cell.starts = "+".join(counts)


def _judge_log(cell: Cell, attempt: Attempt, client: Client, job_id: str) -> None:
    expected = expected_log(cell.job, cell.run_s)
    held = client.log(job_id, attempt.no)
    row = rows(lambda: ByteStream.objects.filter(attempt=attempt, stream=0).first())
    if attempt.end_reason == "node_lost":
        cell.expect(expected.startswith(held), f"the lost attempt's log ({len(held)} bytes) is not what it wrote")
        return
    equal = held == expected and row is not None and row.sha256 == hashlib.sha256(expected).hexdigest()
    cell.log = "equal" if equal else "NOT EQUAL"
    cell.expect(equal, f"log: {len(held)} bytes instead of {len(expected)}, sealed: {bool(row and row.sha256)}")


def _judge_usage(cell: Cell, attempt: Attempt, wave: Wave, journal: list[dict[str, Any]]) -> None:
    def read() -> UsageInterval | None:
        allocation = Allocation.objects.filter(attempt=attempt).first()
        return UsageInterval.objects.filter(allocation_id=allocation.id).first() if allocation else None

    usage = rows(read)
    billed = float(usage.seconds or 0) * usage.gpu_count if usage else 0.0
    lines = {line["event"]: line for line in journal if line["attempt"] == str(attempt.id)}
    started, ended = lines.get("start"), lines.get("exit")
    if attempt.end_reason == "node_lost":
        beat = wave.heartbeats.get(cell.step.node, {})
        known_until = ended["ended_mono_ns"] if ended else beat.get("mono_ns", 0)
        lived = max(0.0, (known_until - started["started_mono_ns"]) / 1e9) if started else 0.0
        cell.gpu_seconds += f"{billed:.3f}≤{lived:.3f} + "
        cell.expect(billed <= lived + _MILLISECOND, f"billed {billed:.6f} s, alive for {lived:.6f} s")
        if usage is not None:  # it was reported running: then all of it is billed
            cell.expect(abs(billed - lived) <= _MILLISECOND, f"billed {billed:.6f} of {lived:.6f} s alive")
        return
    record = (ended["ended_mono_ns"] - started["started_mono_ns"]) / 1e9 if started and ended else 0.0
    cell.gpu_seconds += f"{billed:.3f}={record:.3f}"
    cell.expect(usage is not None and usage.ended_at is not None, "no closed usage interval")
    cell.expect(abs(billed - record) <= _MILLISECOND, f"billed {billed:.6f} s, the node's record says {record:.6f} s")


def _judge_mail(cell: Cell, room: Room) -> None:
    count = 0
    for path in room.env.mail_dir.glob("*.eml"):
        subject = str(email.message_from_bytes(path.read_bytes(), policy=email.policy.default)["subject"])
        count += f"Job {cell.job} " in f"{subject} "
    cell.expect(count == 1, f"{count} mails instead of one")


def _settled_leftovers(room: Room) -> list[str]:
    """Wait until nothing is left, at most for a while; return what still is."""
    found: list[str] = []

    def clean() -> bool:
        found[:] = rows(_portal_leftovers)
        if not found:
            for name in room.nodes:
                found.extend(room.node_leftovers(name))
        return not found

    with contextlib.suppress(WaitedInVain):
        until(clean, "nothing is left over", seconds=CLEAN_WITHIN_S)
    return found


def _portal_leftovers() -> list[str]:
    counts = {
        "jobs not ended": Job.objects.exclude(state="ended").count(),
        "attempts not ended": Attempt.objects.exclude(state="ended").count(),
        "attempts not removed": Attempt.objects.filter(removed_at=None).count(),
        "open allocations": Allocation.objects.filter(closed_at=None).count(),
        "open devices": AllocationDevice.objects.filter(is_open=True).count(),
        "GPUs in use": GpuDevice.objects.filter(share_used__gt=0).count(),
        "nodes with CPU or memory in use": Node.objects.filter(cpu_milli_used__gt=0).count()
        + Node.objects.filter(memory_mib_used__gt=0).count(),
        "quota counters in use": QuotaUse.objects.filter(used__gt=0).count(),
        "open usage": UsageInterval.objects.filter(ended_at=None).count(),
        "live operations": NodeOperation.objects.filter(state__in=_LIVE).count(),
        "outbox rows": OutboxMessage.objects.count(),
        "mails not sent": Notification.objects.exclude(status="sent").count(),
        "logs not sealed": ByteStream.objects.filter(sealed_at=None, attempt__end_reason="exited").count(),
    }
    return [f"{count} {what}" for what, count in counts.items() if count]
