"""Carrying out what the scheduler decides: every decision is re-checked by the database."""

import datetime as dt
import json
import uuid
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError
from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce

from apps.core import state
from apps.core.crypto import unseal
from apps.core.errors import QuotaExceeded, StateConflict
from apps.core.failpoints import failpoint
from apps.core.tenancy import system_scope
from apps.fleet.choices import OperationKind
from apps.fleet.selectors import gpu_uuids
from apps.fleet.services import NoRoom, gpus_take, operation_create, room_take
from apps.tenants.choices import Resource
from apps.tenants.services import quota_take
from apps.workloads.choices import JobState
from apps.workloads.models import Allocation, AllocationDevice, Attempt, Job
from apps.workloads.types import Placement

START_DEADLINE = dt.timedelta(minutes=30)
START_OPERATION_VALID_FOR = dt.timedelta(minutes=10)
LOG_LIMIT_BYTES = 10 * 1024**3
OUTPUTS_LIMIT_BYTES = 10 * 1024**3
STOP_GRACE_S = 30


def placement_apply(*, placement: Placement, now: dt.datetime) -> bool:
    """Gives a waiting job its room and asks the node to start it; False when the decision is stale.

    One transaction: attempt, allocation, counters, operation. Nothing is left of a decision that no longer holds.
    """
    try:
        with system_scope():
            return _apply(placement, now)
    except (NoRoom, QuotaExceeded, StateConflict, IntegrityError):
        return False


def _apply(placement: Placement, now: dt.datetime) -> bool:
    waiting = Job.objects.select_for_update().filter(pk=placement.job_id, state=JobState.PENDING)
    job = waiting.annotate(attempts_so_far=_attempts_so_far()).first()
    if job is None:
        return False
    quota_take(tenant_id=job.tenant_id, resource=Resource.GPUS, amount=job.gpus)
    room_take(node_id=placement.node_id, cpu_milli=job.cpu_milli, memory_mib=job.memory_mib)
    gpus_take(gpu_ids=placement.gpu_ids)
    attempt = Attempt(
        tenant_id=job.tenant_id, job=job, no=job.attempts_so_far + 1, node_id=placement.node_id, created_at=now,
        state_changed_at=now, deadline_at=now + START_DEADLINE,
    )  # fmt: skip
    state.created(attempt, event="attempt.placed", data={"no": attempt.no}, now=now)
    allocation = Allocation.objects.create(
        tenant_id=job.tenant_id, attempt=attempt, node_id=placement.node_id, cpu_milli=job.cpu_milli,
        memory_mib=job.memory_mib, opened_at=now,
    )  # fmt: skip
    AllocationDevice.objects.bulk_create(
        AllocationDevice(tenant_id=job.tenant_id, allocation=allocation, gpu_id=gpu) for gpu in placement.gpu_ids
    )
    data = {"node": placement.node_name, "gpus": len(placement.gpu_ids), "attempt": attempt.no, "why": placement.why}
    state.moved(
        job, expect=[JobState.PENDING], to=JobState.PLACED, event="job.placed", data=data,
        changes={"pending_reason": "", "pending_detail": {}}, now=now,
    )  # fmt: skip
    operation_create(
        node_id=placement.node_id, kind=OperationKind.ATTEMPT_START, object_id=attempt.id,
        args=_start_args(job, attempt, placement), valid_for=START_OPERATION_VALID_FOR, now=now,
    )  # fmt: skip
    failpoint("S5", job.name)
    return True


def _attempts_so_far() -> Coalesce:
    counts = Attempt.objects.filter(job=OuterRef("pk")).order_by().values("job").values(count=Count("pk"))
    return Coalesce(Subquery(counts), 0)


def _start_args(job: Job, attempt: Attempt, placement: Placement) -> dict[str, Any]:
    return {
        "attempt_id": str(attempt.id),
        "job_id": str(job.id),
        "tenant_id": str(job.tenant_id),
        "image": job.image,
        "command": job.command,
        "env": json.loads(unseal(job.env_sealed, purpose=f"job.env:{job.id}")),
        "gpus": gpu_uuids(placement.gpu_ids) if placement.gpu_ids else [],
        "cpus": job.cpu_milli / 1000,
        "memory_mib": job.memory_mib,
        "shm_mib": job.shm_mib,
        "time_limit_s": job.time_limit_s,
        "stop_grace_s": STOP_GRACE_S,
        "log_limit_bytes": LOG_LIMIT_BYTES,
        "outputs_limit_bytes": OUTPUTS_LIMIT_BYTES,
        "files": job.files,
        "network": "none",
    }


def pending_explain(*, job_id: uuid.UUID, reason: str, detail: Mapping[str, Any], now: dt.datetime) -> None:
    """Keeps why a job still waits; an event only when the reason itself changes, not its numbers."""
    with system_scope():
        job = Job.objects.select_for_update().filter(pk=job_id, state=JobState.PENDING).first()
        if job is None or (job.pending_reason == reason and job.pending_detail == dict(detail)):
            return
        if job.pending_reason == reason:
            Job.objects.filter(pk=job_id).update(pending_detail=dict(detail))
            return
        state.noted(
            Job, job_id, event="job.waits", data={"reason": reason, **detail},
            changes={"pending_reason": reason, "pending_detail": dict(detail)}, now=now,
        )  # fmt: skip
