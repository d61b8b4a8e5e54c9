"""Jobs for people."""

import datetime as dt
import json
import uuid
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from django.db.models import Prefetch, Q

from apps.billing.selectors import gpu_seconds_of
from apps.core.access import Actor, Permission, allowed, require
from apps.core.crypto import unseal
from apps.core.errors import NotFound
from apps.core.models import Event
from apps.core.tenancy import system_scope, tenant_scope
from apps.fleet.selectors import node_names
from apps.monitoring.selectors import gpu_readings
from apps.monitoring.types import GpuReading
from apps.tenants.types import TenantRef
from apps.workloads.choices import Stream
from apps.workloads.models import AllocationDevice, Attempt, ByteStream, Job
from apps.workloads.types import AttemptView, InputFile, JobSpec, JobView


def _query() -> Any:
    attempts = Attempt.objects.order_by("no").prefetch_related(
        "streams", Prefetch("allocation__devices", queryset=AllocationDevice.objects.select_related("gpu"))
    )
    return Job.objects.prefetch_related(Prefetch("attempts", queryset=attempts))


def job_list(
    *,
    actor: Actor,
    tenant: TenantRef,
    state: str = "",
    search: str = "",
    before: uuid.UUID | None = None,
    limit: int = 50,
) -> list[JobView]:
    """Returns one page of the tenant's jobs, newest first, older than the job `before`.

    `state` is a state or a result; `search` matches a part of the name.
    """
    require(actor, Permission.JOB_VIEW, tenant_id=tenant.id)
    with tenant_scope(tenant.id):
        rows = _query().filter(tenant_id=tenant.id).order_by("-id")
        if state:
            rows = rows.filter(Q(state=state) | Q(result=state))
        if search:
            rows = rows.filter(name__icontains=search)
        if before is not None:
            rows = rows.filter(pk__lt=before)
        jobs = list(rows[:limit])
        names = node_names({a.node_id for job in jobs for a in job.attempts.all()})
        return [_view(job, names) for job in jobs]


def job_get(*, actor: Actor, tenant: TenantRef, job_id: uuid.UUID) -> JobView:
    """Returns one job with its attempts and GPU-seconds; raises NotFound."""
    require(actor, Permission.JOB_VIEW, tenant_id=tenant.id)
    with tenant_scope(tenant.id):
        job = _query().filter(tenant_id=tenant.id, pk=job_id).first()
        if job is None:
            raise NotFound("There is no such job.")
        names = node_names({a.node_id for a in job.attempts.all()})
        used = gpu_seconds_of(tenant=tenant, object_id=job_id) if names else Decimal(0)
        return _view(job, names, used)


def job_seqs(*, actor: Actor, job_ids: list[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Returns the newest event number of those of the jobs that the actor may see, in whichever of his tenants."""
    found: dict[uuid.UUID, int] = {}
    for tenant_id in actor.tenant_grants:
        if len(found) < len(job_ids) and allowed(actor, Permission.JOB_VIEW, tenant_id=tenant_id):
            with tenant_scope(tenant_id):
                found |= dict(Job.objects.filter(tenant_id=tenant_id, pk__in=job_ids).values_list("pk", "seq"))
    return found


def job_clone_spec(*, actor: Actor, tenant: TenantRef, job_id: uuid.UUID) -> JobSpec:
    """Returns a job's spec with the values of its environment, for a clone by someone who may submit."""
    require(actor, Permission.JOB_SUBMIT, tenant_id=tenant.id)
    with tenant_scope(tenant.id):
        job = Job.objects.filter(tenant_id=tenant.id, pk=job_id).first()
        if job is None:
            raise NotFound("There is no such job.")
        env = json.loads(unseal(job.env_sealed, purpose=f"job.env:{job.id}"))
        return _spec(job, env)


def job_events(
    *, actor: Actor, tenant: TenantRef, job_id: uuid.UUID, after_seq: int = 0, limit: int = 500
) -> list[dict[str, Any]]:
    """Returns a job's events after a sequence number, in order: seq, name, data, at."""
    require(actor, Permission.JOB_VIEW, tenant_id=tenant.id)
    with tenant_scope(tenant.id):
        if not Job.objects.filter(tenant_id=tenant.id, pk=job_id).exists():
            raise NotFound("There is no such job.")
        rows = Event.objects.filter(object_id=job_id, seq__gt=after_seq).order_by("seq")[:limit]
        return [{"seq": e.seq, "name": e.name, "data": e.data, "at": e.at} for e in rows]


def job_readings(
    *, actor: Actor, tenant: TenantRef, job_id: uuid.UUID, since: dt.datetime | None = None
) -> list[GpuReading]:
    """Returns readings of the GPUs of a job's newest attempt while it held them; nobody else's."""
    job = job_get(actor=actor, tenant=tenant, job_id=job_id)
    attempt = job.attempt
    if attempt is None or attempt.started_at is None:
        return []
    begin = max(attempt.started_at, since) if since else attempt.started_at
    return gpu_readings(gpu_uuids=attempt.gpu_uuids, since=begin, until=attempt.ended_at)


def jobs_on_nodes(*, actor: Actor, node_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, list[dict[str, Any]]]:
    """Returns for an operator what runs on nodes: job id, name, tenant and GPU UUIDs per node."""
    require(actor, Permission.NODE_VIEW)
    found: dict[uuid.UUID, list[dict[str, Any]]] = {}
    with system_scope():
        devices = AllocationDevice.objects.filter(is_open=True, allocation__node_id__in=list(node_ids)).select_related(
            "allocation__attempt__job__tenant", "gpu"
        )
        for device in devices:
            job = device.allocation.attempt.job
            entry = {"job_id": job.id, "name": job.name, "tenant": job.tenant.slug, "gpu_uuid": device.gpu.uuid}
            found.setdefault(device.allocation.node_id, []).append(entry)
    return found


def _spec(job: Job, env: dict[str, str]) -> JobSpec:
    return JobSpec(
        name=job.name, image=job.image, command=tuple(job.command), env=env, gpus=job.gpus, gpu_model=job.gpu_model,
        gpu_memory_mib=job.gpu_memory_mib, cpu_milli=job.cpu_milli, memory_mib=job.memory_mib, shm_mib=job.shm_mib,
        time_limit_s=job.time_limit_s, max_retries=job.max_retries, files=tuple(InputFile(**f) for f in job.files),
    )  # fmt: skip


def _view(job: Job, names: dict[uuid.UUID, str], gpu_seconds: Decimal | None = None) -> JobView:
    return JobView(
        id=job.id, tenant_id=job.tenant_id, created_by=job.created_by_label, created_by_id=job.created_by_id,
        spec=_spec(job, dict.fromkeys(job.env_names, "")), state=job.state, result=job.result, seq=job.seq,
        pending_reason=job.pending_reason, pending_detail=job.pending_detail, end_reason=job.end_reason,
        end_detail=job.end_detail, cancel_requested_at=job.cancel_requested_at, created_at=job.created_at,
        state_changed_at=job.state_changed_at, started_at=job.started_at, ended_at=job.ended_at,
        attempts=tuple(_attempt_view(a, names) for a in job.attempts.all()), gpu_seconds=gpu_seconds,
    )  # fmt: skip


def _attempt_view(attempt: Attempt, names: dict[uuid.UUID, str]) -> AttemptView:
    streams: dict[int, ByteStream] = {s.stream: s for s in attempt.streams.all()}
    log, outputs = streams.get(Stream.LOG), streams.get(Stream.OUTPUTS)
    devices = sorted(
        attempt.allocation.devices.all(), key=lambda d: (d.gpu.index is None, d.gpu.index, d.gpu.pci_address)
    )
    return AttemptView(
        id=attempt.id, no=attempt.no, state=attempt.state, node_name=names.get(attempt.node_id, ""),
        end_reason=attempt.end_reason, end_detail=attempt.end_detail, exit_code=attempt.exit_code,
        signal=attempt.signal,
        created_at=attempt.created_at, started_at=attempt.started_at, ended_at=attempt.ended_at,
        gpu_uuids=tuple(d.gpu.uuid for d in devices), log_bytes=log.length if log else 0,
        log_sha256=log.sha256 if log else "", log_truncated=bool(log and log.truncated),
        outputs_bytes=outputs.length if outputs and outputs.sealed_at else 0,
        outputs_sha256=outputs.sha256 if outputs else "", progress=attempt.progress,
    )  # fmt: skip
