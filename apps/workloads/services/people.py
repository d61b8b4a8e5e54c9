"""What people ask of jobs: submit, cancel, requeue."""

import dataclasses
import datetime as dt
import json
import uuid

from apps.audit.services import audit_record
from apps.core import state
from apps.core.access import Actor, ActorKind, Permission, allowed, require
from apps.core.crypto import seal
from apps.core.errors import Conflict, Forbidden, InvalidInput, NotFound
from apps.core.failpoints import failpoint
from apps.core.outbox import Wish
from apps.core.tenancy import tenant_scope
from apps.fleet.choices import OperationKind
from apps.fleet.services import operation_create
from apps.storage.selectors import files_by_sha256
from apps.tenants.choices import Resource
from apps.tenants.services import quota_return, quota_take
from apps.tenants.types import TenantRef
from apps.workloads.choices import ACTIVE, ATTEMPT_LIVE, AttemptState, EndReason, JobResult, JobState, PendingReason
from apps.workloads.models import Attempt, Job
from apps.workloads.types import InputFile, JobSpec

WAKE = Wish("schedule.wake", "all")
STOP_VALID_FOR = dt.timedelta(days=7)
STOP_GRACE_S = 30


def job_submit(*, actor: Actor, tenant: TenantRef, spec: JobSpec, now: dt.datetime) -> Job:
    """Takes a job in: counter, row, event, audit and the scheduler's wake in one transaction.

    Raises InvalidInput naming every wrong field, QuotaExceeded, Forbidden.
    """
    require(actor, Permission.JOB_SUBMIT, tenant_id=tenant.id)
    spec = _with_known_files(tenant, spec.checked())
    failpoint("S1", spec.name)
    job = Job(
        tenant_id=tenant.id, created_by_id=uuid.UUID(actor.id) if actor.kind is ActorKind.USER else None,
        created_by_label=actor.label, created_at=now, state_changed_at=now, pending_since=now,
        pending_reason=PendingReason.SUBMITTED, env_names=sorted(spec.env), **_columns(spec),
    )  # fmt: skip
    job.env_sealed = seal(json.dumps(spec.env).encode(), purpose=f"job.env:{job.id}")
    with tenant_scope(tenant.id):
        quota_take(tenant_id=tenant.id, resource=Resource.JOBS, amount=1)
        state.created(job, event="job.submitted", wishes=[WAKE], now=now)
        audit_record(
            actor=actor, action="job.submit", object_kind="job", object_id=job.id, object_label=job.name,
            tenant_id=tenant.id, after={"image": job.image, "gpus": job.gpus}, now=now,
        )  # fmt: skip
        failpoint("S2", spec.name)
    return job


def _columns(spec: JobSpec) -> dict[str, object]:
    columns = {f.name: getattr(spec, f.name) for f in dataclasses.fields(spec) if f.name != "env"}
    return columns | {"command": list(spec.command), "files": [dataclasses.asdict(f) for f in spec.files]}


def _with_known_files(tenant: TenantRef, spec: JobSpec) -> JobSpec:
    known = files_by_sha256(tenant_id=tenant.id, digests=[f.sha256 for f in spec.files]) if spec.files else {}
    missing = [f.path for f in spec.files if f.sha256 not in known]
    if missing:
        raise InvalidInput(
            "The job names files that were not uploaded.", errors={"files": f"Upload first: {', '.join(missing[:5])}."}
        )
    files = tuple(InputFile(path=f.path, sha256=f.sha256, size=known[f.sha256].size) for f in spec.files)
    return dataclasses.replace(spec, files=files)


def _own_or_manage(actor: Actor, job: Job) -> None:
    own = actor.id == str(job.created_by_id) and allowed(actor, Permission.JOB_SUBMIT, tenant_id=job.tenant_id)
    if not own and not allowed(actor, Permission.JOB_MANAGE, tenant_id=job.tenant_id):
        raise Forbidden(f"The job belongs to {job.created_by_label}. Only they or an owner of the tenant may do this.")


def _find(actor: Actor, tenant: TenantRef, job_id: uuid.UUID) -> Job:
    require(actor, Permission.JOB_VIEW, tenant_id=tenant.id)
    job = Job.objects.select_for_update().filter(tenant_id=tenant.id, pk=job_id).first()
    if job is None:
        raise NotFound("There is no such job.")
    _own_or_manage(actor, job)
    return job


def job_cancel(*, actor: Actor, tenant: TenantRef, job_id: uuid.UUID, now: dt.datetime) -> Job:
    """Ends a waiting job at once; asks the node to stop a running one. A second cancel changes nothing."""
    with tenant_scope(tenant.id):
        job = _find(actor, tenant, job_id)
        if job.state == JobState.STOPPING:
            return job
        if job.state == JobState.ENDED:
            raise Conflict(f"The job has ended ({job.result}).")
        audit_record(
            actor=actor, action="job.cancel", object_kind="job", object_id=job.id, object_label=job.name,
            tenant_id=tenant.id, before={"state": job.state}, now=now,
        )  # fmt: skip
        data = {"by": actor.label}
        if job.state == JobState.PENDING:
            quota_return(tenant_id=tenant.id, resource=Resource.JOBS, amount=1)
            changes = {
                "pending_reason": "", "result": JobResult.CANCELLED, "end_reason": EndReason.CANCELLED,
                "end_detail": f"cancelled by {actor.label} before it started", "cancel_requested_at": now,
                "ended_at": now,
            }  # fmt: skip
            return state.moved(
                job, expect=[JobState.PENDING], to=JobState.ENDED, event="job.cancelled", data=data,
                changes=changes, wishes=[WAKE], now=now,
            )  # fmt: skip
        state.moved(
            job, expect=ACTIVE, to=JobState.STOPPING, event="job.cancel_requested", data=data,
            changes={"cancel_requested_at": now}, now=now,
        )  # fmt: skip
        attempt = Attempt.objects.select_for_update().get(job=job, state__in=ATTEMPT_LIVE)
        attempt_stop_ask(attempt, reason="cancelled", now=now)
        return job


def attempt_stop_ask(attempt: Attempt, *, reason: str, now: dt.datetime) -> None:
    """Asks the attempt's node to stop it, in the open transaction; a repeat changes nothing."""
    if attempt.state != AttemptState.STOPPING:
        state.moved(
            attempt, expect=ATTEMPT_LIVE, to=AttemptState.STOPPING, event="attempt.stop_requested",
            data={"reason": reason}, changes={"deadline_at": None}, now=now,
        )  # fmt: skip
    operation_create(
        node_id=attempt.node_id, kind=OperationKind.ATTEMPT_STOP, object_id=attempt.id,
        args={"attempt_id": str(attempt.id), "grace_s": STOP_GRACE_S, "reason": reason},
        valid_for=STOP_VALID_FOR, now=now,
    )  # fmt: skip


def job_requeue(*, actor: Actor, tenant: TenantRef, job_id: uuid.UUID, now: dt.datetime) -> Job:
    """Puts an ended job back into the queue as a new attempt; its earlier attempts stay on record."""
    with tenant_scope(tenant.id):
        job = _find(actor, tenant, job_id)
        if job.state != JobState.ENDED:
            raise Conflict(f"The job is {job.state}. Only an ended job can be requeued; cancel it first.")
        quota_take(tenant_id=tenant.id, resource=Resource.JOBS, amount=1)
        audit_record(
            actor=actor, action="job.requeue", object_kind="job", object_id=job.id, object_label=job.name,
            tenant_id=tenant.id, before={"result": job.result}, now=now,
        )  # fmt: skip
        changes = {
            "result": "", "end_reason": "", "end_detail": "", "pending_reason": PendingReason.REQUEUED,
            "pending_detail": {}, "pending_since": now, "cancel_requested_at": None, "ended_at": None,
            "started_at": None, "retries_used": 0,
        }  # fmt: skip
        return state.moved(
            job, expect=[JobState.ENDED], to=JobState.PENDING, event="job.requeued", data={"by": actor.label},
            changes=changes, wishes=[WAKE], now=now,
        )  # fmt: skip
