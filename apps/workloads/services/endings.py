"""How attempts end: room, counters and usage are given back in the transaction that ends them."""

import datetime as dt
import uuid

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext as _

from apps.accounts.selectors import mail_recipient
from apps.billing.services import usage_close
from apps.core import state
from apps.core.failpoints import failpoint
from apps.core.outbox import Wish
from apps.core.tenancy import system_scope
from apps.fleet.choices import OperationKind
from apps.fleet.selectors import node_last_alive
from apps.fleet.services import gpus_return, link_check, operation_create, operations_cancel, room_return
from apps.notifications.services import notification_create
from apps.tenants.choices import Resource
from apps.tenants.services import quota_return
from apps.workloads.choices import (
    ACTIVE,
    ATTEMPT_LIVE,
    RETRIED,
    AttemptState,
    EndReason,
    JobResult,
    JobState,
    PendingReason,
)
from apps.workloads.models import Allocation, Attempt, Job
from apps.workloads.types import EndInfo

REMOVE_VALID_FOR = dt.timedelta(days=7)
_RESULT = {
    EndReason.EXITED: JobResult.SUCCEEDED,
    EndReason.CANCELLED: JobResult.CANCELLED,
    EndReason.NODE_LOST: JobResult.LOST,
}


def attempt_ended(
    *, node_id: uuid.UUID, link_token: int, attempt_id: uuid.UUID, status_seq: int, end: EndInfo, now: dt.datetime
) -> None:
    """Closes an attempt by its node's report, and the job with it, or requeues the job. A repeat changes nothing."""
    with system_scope():
        link_check(node_id=node_id, token=link_token)
        attempt = attempt_locked(attempt_id, node_id)
        if attempt is None:
            return
        if attempt.state != AttemptState.ENDED:
            attempt_close(attempt, end, now, status_seq)
        removal_ask(attempt, now=now)
        failpoint("S13", attempt.job.name)


def attempts_lost_with_node(*, node_id: uuid.UUID, detail: str, now: dt.datetime) -> int:
    """Ends all live attempts of a node that was declared down; usage ends at the last sign of life."""
    with system_scope():
        alive_at = node_last_alive(node_id)
        ids = list(Attempt.objects.filter(node_id=node_id, state__in=ATTEMPT_LIVE).values_list("pk", flat=True))
        for attempt_id in ids:
            attempt = attempt_locked(attempt_id, node_id)
            if attempt is None or attempt.state == AttemptState.ENDED:
                continue
            ran = (alive_at - attempt.started_at) if alive_at and attempt.started_at else dt.timedelta(0)
            ran_ns = max(0, int(ran.total_seconds() * 1_000_000_000))
            end = EndInfo(reason=EndReason.NODE_LOST, ran_ns=ran_ns, detail=detail, source="last_alive")
            attempt_close(attempt, end, now, attempt.node_status_seq)
        return len(ids)


def attempt_locked(attempt_id: uuid.UUID, node_id: uuid.UUID) -> Attempt | None:
    """Locks the job, then the attempt: everyone takes them in this order."""
    job_id = Attempt.objects.filter(pk=attempt_id, node_id=node_id).values_list("job_id", flat=True).first()
    if job_id is None:
        return None
    job = Job.objects.select_for_update().get(pk=job_id)
    attempt = Attempt.objects.select_for_update().get(pk=attempt_id)
    attempt.job = job
    return attempt


def attempt_close(attempt: Attempt, end: EndInfo, now: dt.datetime, status_seq: int) -> None:
    job = attempt.job
    changes = {
        "ended_at": now, "ran_ns": end.ran_ns, "end_reason": end.reason, "end_detail": end.detail, "deadline_at": None,
        "exit_code": end.exit_code, "signal": end.signal, "node_status_seq": max(status_seq, attempt.node_status_seq),
    }  # fmt: skip
    state.moved(
        attempt, expect=ATTEMPT_LIVE, to=AttemptState.ENDED, event="attempt.ended",
        data={"reason": end.reason, "exit_code": end.exit_code}, changes=changes, now=now,
    )  # fmt: skip
    operations_cancel(kind=OperationKind.ATTEMPT_START, object_id=attempt.id, now=now)
    operations_cancel(kind=OperationKind.ATTEMPT_STOP, object_id=attempt.id, now=now)
    _give_back(attempt, end, now)
    cancelled = job.cancel_requested_at is not None
    if end.reason in RETRIED and not cancelled and job.retries_used < job.max_retries:
        _requeue(job, attempt, end, now)
    else:
        _end_job(job, attempt, end, cancelled, now)


def _give_back(attempt: Attempt, end: EndInfo, now: dt.datetime) -> None:
    allocation = Allocation.objects.select_for_update().get(attempt=attempt)
    if allocation.closed_at is not None:
        return
    devices = list(allocation.devices.filter(is_open=True))
    allocation.devices.update(is_open=False)
    allocation.closed_at = now
    allocation.save(update_fields=["closed_at"])
    gpus_return(gpu_ids=[d.gpu_id for d in devices])
    room_return(node_id=allocation.node_id, cpu_milli=allocation.cpu_milli, memory_mib=allocation.memory_mib)
    quota_return(tenant_id=attempt.tenant_id, resource=Resource.GPUS, amount=len(devices))
    usage_close(allocation_id=allocation.id, ran_ns=end.ran_ns, source=end.source)


def _requeue(job: Job, attempt: Attempt, end: EndInfo, now: dt.datetime) -> None:
    state.moved(
        job, expect=ACTIVE, to=JobState.PENDING, event="job.requeued",
        data={"attempt": attempt.no, "reason": end.reason, "detail": end.detail},
        changes={
            "pending_reason": PendingReason.REQUEUED, "pending_detail": {"attempt": attempt.no}, "pending_since": now,
            "retries_used": job.retries_used + 1,
        },
        wishes=[Wish("schedule.wake", "all")], now=now,
    )  # fmt: skip


def _end_job(job: Job, attempt: Attempt, end: EndInfo, cancelled: bool, now: dt.datetime) -> None:
    result = _RESULT.get(EndReason(end.reason), JobResult.FAILED)
    if cancelled and result != JobResult.SUCCEEDED:
        result = JobResult.CANCELLED
    state.moved(
        job, expect=ACTIVE, to=JobState.ENDED, event="job.ended",
        data={"result": result, "reason": end.reason, "detail": end.detail, "exit_code": end.exit_code},
        changes={"result": result, "end_reason": end.reason, "end_detail": end.detail, "ended_at": now},
        wishes=[Wish("schedule.wake", "all")], now=now,
    )  # fmt: skip
    quota_return(tenant_id=job.tenant_id, resource=Resource.JOBS, amount=1)
    _mail(job, attempt, result, end)


def _mail(job: Job, attempt: Attempt, result: JobResult, end: EndInfo) -> None:
    recipient = mail_recipient(tenant_id=job.tenant_id, user_id=job.created_by_id) if job.created_by_id else None
    if recipient is None:
        return
    address, language = recipient
    seconds = end.ran_ns / 1e9
    with translation.override(language):
        subject = _("Job %(name)s %(result)s") % {"name": job.name, "result": str(result.label)}
        lines = [
            subject + ".",
            "",
            _("Reason: %(reason)s")
            % {"reason": f"{EndReason(end.reason).label}{': ' + end.detail if end.detail else ''}"},
            _("Attempt %(no)d ran %(seconds).1f s on %(gpus)d GPU: %(total).1f GPU-seconds.")
            % {"no": attempt.no, "seconds": seconds, "gpus": job.gpus, "total": seconds * job.gpus},
            "",
            _("Log and details: %(url)s") % {"url": f"{settings.BERTH_PUBLIC_URL}/jobs/{job.id}"},
        ]
    notification_create(
        tenant_id=job.tenant_id,
        dedupe_key=f"job.ended:{attempt.id}",
        address=address,
        subject=subject,
        body="\n".join(lines),
    )


def removal_ask(attempt: Attempt, *, now: dt.datetime) -> None:
    """Asks the node to remove container, spool and folders of an ended attempt, once."""
    if attempt.removed_at is None:
        operation_create(
            node_id=attempt.node_id, kind=OperationKind.ATTEMPT_REMOVE, object_id=attempt.id,
            args={"attempt_id": str(attempt.id)}, valid_for=REMOVE_VALID_FOR, now=now,
        )  # fmt: skip
