"""What nodes report of attempts: applied once, in order, only under the current link."""

import datetime as dt
import uuid
from collections.abc import Mapping
from typing import Any

from apps.billing.services import usage_open
from apps.core import state
from apps.core.failpoints import failpoint
from apps.core.tenancy import system_scope
from apps.fleet.choices import OperationKind
from apps.fleet.services import link_check, operation_create
from apps.workloads.choices import ATTEMPT_LIVE, AttemptState, EndReason
from apps.workloads.models import Allocation, Attempt, Job
from apps.workloads.services.endings import attempt_close, attempt_locked, removal_ask
from apps.workloads.services.people import STOP_VALID_FOR, attempt_stop_ask
from apps.workloads.types import EndInfo

NODE_ENDS = frozenset({"exited", "failed", "cancelled", "lost"})
"""States in which the node's own record says that nothing of the attempt runs."""


def attempt_accepted(*, attempt_id: uuid.UUID, node_id: uuid.UUID, now: dt.datetime) -> None:
    """The node has the attempt on its record: job and attempt are starting."""
    with system_scope():
        attempt = attempt_locked(attempt_id, node_id)
        if attempt is not None and attempt.state == AttemptState.PLACED:
            _both(attempt, expect=(AttemptState.PLACED,), to=AttemptState.STARTING, event="starting", now=now)


def _both(
    attempt: Attempt, *, expect: tuple[str, ...], to: str, event: str, now: dt.datetime,
    attempt_changes: Mapping[str, Any] | None = None, job_changes: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Moves attempt and job, both locked, together; a job that is being stopped keeps its state."""
    state.moved(attempt, expect=expect, to=to, event=f"attempt.{event}", changes=attempt_changes, now=now)
    if attempt.job.state in expect:
        state.moved(
            attempt.job, expect=expect, to=to, event=f"job.{event}", data={"attempt": attempt.no}, changes=job_changes,
            now=now,
        )  # fmt: skip


def _current(attempt_id: uuid.UUID, node_id: uuid.UUID, status_seq: int) -> Attempt | None:
    """Locks a live attempt for a status that was not applied before."""
    attempt = attempt_locked(attempt_id, node_id)
    if attempt is None or attempt.state == AttemptState.ENDED or status_seq <= attempt.node_status_seq:
        return None
    return attempt


def attempt_progressed(
    *,
    node_id: uuid.UUID,
    link_token: int,
    attempt_id: uuid.UUID,
    status_seq: int,
    progress: dict[str, Any],
    now: dt.datetime,
) -> None:
    """Notes pulling or created; the first of them also says that the node has accepted."""
    with system_scope():
        link_check(node_id=node_id, token=link_token)
        attempt = _current(attempt_id, node_id, status_seq)
        if attempt is None:
            return
        if attempt.state == AttemptState.PLACED:
            _both(attempt, expect=(AttemptState.PLACED,), to=AttemptState.STARTING, event="starting", now=now)
        Attempt.objects.filter(pk=attempt_id).update(node_status_seq=status_seq, progress=progress)
        if progress.get("state") != attempt.progress.get("state"):
            state.noted(
                Job, attempt.job_id, event=f"job.{progress['state']}", data={"attempt": attempt.no, **progress}, now=now
            )


def attempt_running(
    *, node_id: uuid.UUID, link_token: int, attempt_id: uuid.UUID, status_seq: int, boot_id: str, container_id: str,
    now: dt.datetime,
) -> None:  # fmt: skip
    """The container runs: job and attempt are running and metering begins."""
    with system_scope():
        link_check(node_id=node_id, token=link_token)
        attempt = _current(attempt_id, node_id, status_seq)
        if attempt is None:
            return
        changes = {
            "node_status_seq": status_seq, "started_at": now, "node_boot_id": boot_id, "container_id": container_id,
            "deadline_at": None, "progress": {"state": "running"},
        }  # fmt: skip
        before = (AttemptState.PLACED, AttemptState.STARTING)
        if attempt.state in before:
            _both(
                attempt, expect=before, to=AttemptState.RUNNING, event="running", attempt_changes=changes,
                job_changes={"started_at": now}, now=now,
            )  # fmt: skip
        else:  # being stopped: it did run, and that is metered too
            state.noted(Attempt, attempt_id, event="attempt.ran", changes=changes, now=now)
        _meter(attempt, now)
        failpoint("S10", attempt.job.name)


def _meter(attempt: Attempt, now: dt.datetime) -> None:
    rows: list[Any] = list(Allocation.objects.filter(attempt=attempt).values_list("id", "devices__gpu__model"))
    models = [model for _, model in rows if model is not None]
    usage_open(
        tenant_id=attempt.tenant_id, allocation_id=rows[0][0], object_kind="job", object_id=attempt.job_id,
        gpu_count=len(models), gpu_model=models[0] if models else "", started_at=now,
    )  # fmt: skip


def attempt_stuck(
    *, node_id: uuid.UUID, link_token: int, attempt_id: uuid.UUID, status_seq: int, message: str, now: dt.datetime
) -> None:
    """The container does not die: said on the job; its GPUs stay held until the node is rebooted."""
    with system_scope():
        link_check(node_id=node_id, token=link_token)
        attempt = _current(attempt_id, node_id, status_seq)
        if attempt is not None:
            Attempt.objects.filter(pk=attempt_id).update(
                node_status_seq=status_seq, progress={"state": "stuck", "message": message}
            )
            state.noted(
                Job, attempt.job_id, event="job.stuck", data={"attempt": attempt.no, "message": message}, now=now
            )


def attempt_removed(*, attempt_id: uuid.UUID, now: dt.datetime) -> None:
    """The node has removed every trace of the attempt."""
    with system_scope():
        Attempt.objects.filter(pk=attempt_id, removed_at=None).update(removed_at=now)


def start_expired(*, attempt_id: uuid.UUID, now: dt.datetime) -> None:
    """A start was not delivered in time: a stop is asked, so that a late delivery can't run either."""
    _overdue(attempt_id, "start_expired", now)


def attempts_overdue_stop(*, now: dt.datetime, limit: int = 100) -> int:
    """Stops attempts that did not reach running before their deadline; for the sweep."""
    with system_scope():
        ids = list(
            Attempt.objects.filter(state__in=ATTEMPT_LIVE, deadline_at__lte=now).values_list("pk", flat=True)[:limit]
        )
    for attempt_id in ids:
        _overdue(attempt_id, "start_expired", now)
    return len(ids)


def _overdue(attempt_id: uuid.UUID, reason: str, now: dt.datetime) -> None:
    with system_scope():
        node_id = Attempt.objects.filter(pk=attempt_id).values_list("node_id", flat=True).first()
        attempt = attempt_locked(attempt_id, node_id) if node_id else None
        if attempt is None or attempt.state not in (AttemptState.PLACED, AttemptState.STARTING):
            return
        attempt_stop_ask(attempt, reason=reason, now=now)


def attempts_reconcile(
    *, node_id: uuid.UUID, link_token: int, on_node: Mapping[uuid.UUID, str], now: dt.datetime
) -> set[uuid.UUID]:
    """Compares the node's record, as told at its hello, with the portal's; returns what is unknown here.

    Live here and unknown there after it was accepted: lost. Ended or unknown here and alive there: stopped. Ended
    there, and here or unknown here: removed.
    """
    with system_scope():
        link_check(node_id=node_id, token=link_token)
        live = Attempt.objects.filter(node_id=node_id, state__in=(*_ACCEPTED,)).values_list("pk", flat=True)
        for attempt_id in set(live) - set(on_node):
            attempt = attempt_locked(attempt_id, node_id)
            if attempt is not None and attempt.state in _ACCEPTED:
                detail = "the node came back without any record of it"
                end = EndInfo(
                    reason=EndReason.NODE_LOST, ran_ns=_ran_until_alive(attempt), detail=detail, source="last_alive"
                )
                attempt_close(attempt, end, now, attempt.node_status_seq)
        ended = Attempt.objects.filter(pk__in=list(on_node), node_id=node_id, state=AttemptState.ENDED)
        known = set(Attempt.objects.filter(pk__in=list(on_node), node_id=node_id).values_list("pk", flat=True))
        for attempt in ended:
            if on_node[attempt.pk] in NODE_ENDS:
                removal_ask(attempt, now=now)
            else:
                foreign_stop_ask(node_id=node_id, attempt_id=attempt.pk, now=now)
        unknown = set(on_node) - known
        for attempt_id in unknown:
            ask = foreign_remove_ask if on_node[attempt_id] in NODE_ENDS else foreign_stop_ask
            ask(node_id=node_id, attempt_id=attempt_id, now=now)
        return unknown


_ACCEPTED = (AttemptState.STARTING, AttemptState.RUNNING)


def _ran_until_alive(attempt: Attempt) -> int:
    if attempt.started_at is None or attempt.node.last_alive_at is None:
        return 0
    return max(0, int((attempt.node.last_alive_at - attempt.started_at).total_seconds() * 1e9))


def foreign_stop_ask(*, node_id: uuid.UUID, attempt_id: uuid.UUID, now: dt.datetime) -> None:
    """Asks a node to stop something that the portal no longer counts as running, in the open transaction."""
    operation_create(
        node_id=node_id, kind=OperationKind.ATTEMPT_STOP, object_id=attempt_id,
        args={"attempt_id": str(attempt_id), "grace_s": 0, "reason": "superseded"}, valid_for=STOP_VALID_FOR, now=now,
    )  # fmt: skip


def foreign_remove_ask(*, node_id: uuid.UUID, attempt_id: uuid.UUID, now: dt.datetime) -> None:
    """Asks a node to remove what an attempt unknown here has left; an earlier database knew it."""
    with system_scope():
        operation_create(
            node_id=node_id, kind=OperationKind.ATTEMPT_REMOVE, object_id=attempt_id,
            args={"attempt_id": str(attempt_id)}, valid_for=STOP_VALID_FOR, now=now,
        )  # fmt: skip


def removal_ask_again(*, attempt_id: uuid.UUID, now: dt.datetime) -> None:
    """Asks once more for the traces of an ended attempt to be removed, unless that is under way; for the sweep."""
    with system_scope():
        attempt = Attempt.objects.filter(pk=attempt_id, state=AttemptState.ENDED).first()
        if attempt is not None:
            removal_ask(attempt, now=now)
