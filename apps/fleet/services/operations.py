"""What is asked of nodes: rows with a lease and a deadline; a result without the current token changes nothing."""

import datetime as dt
import json
import uuid
from collections.abc import Container
from typing import Any

from apps.core import state
from apps.core.crypto import seal, unseal
from apps.core.errors import StateConflict
from apps.core.outbox import Wish
from apps.core.tenancy import system_scope
from apps.fleet.choices import OperationState
from apps.fleet.models import NodeOperation
from apps.fleet.types import OperationClaim

LEASE = dt.timedelta(seconds=30)
LIVE = (OperationState.QUEUED, OperationState.CLAIMED)


def operation_create(
    *,
    node_id: uuid.UUID,
    kind: str,
    object_id: uuid.UUID,
    args: dict[str, Any],
    valid_for: dt.timedelta,
    now: dt.datetime,
) -> uuid.UUID:
    """Writes an operation in the open transaction; an equal live one is returned instead."""
    live = NodeOperation.objects.filter(kind=kind, object_id=object_id, state__in=LIVE).first()
    if live is not None:
        return live.id
    operation = NodeOperation(
        node_id=node_id, kind=kind, object_id=object_id, deadline_at=now + valid_for, state_changed_at=now
    )
    operation.args_sealed = seal(json.dumps(args).encode(), purpose=f"operation.args:{operation.id}")
    state.created(
        operation,
        event="operation.queued",
        data={"kind": kind},
        wishes=[Wish("node.run_operation", str(operation.id))],
        now=now,
    )
    return operation.id


def operation_claim(*, operation_id: uuid.UUID, nodes: Container[uuid.UUID], now: dt.datetime) -> OperationClaim | None:
    """Leases a queued operation of one of these nodes, or one whose lease ran out; None when there is nothing to do."""
    with system_scope():
        row = NodeOperation.objects.select_for_update(skip_locked=True).filter(pk=operation_id, state__in=LIVE).first()
        if row is None or row.node_id not in nodes or now >= row.deadline_at:
            return None
        if row.state == OperationState.CLAIMED:
            if row.lease_expires_at is not None and row.lease_expires_at > now:
                return None
            state.moved(
                row, expect=[OperationState.CLAIMED], to=OperationState.QUEUED, event="operation.lease_expired", now=now
            )
        state.moved(
            row, expect=[OperationState.QUEUED], to=OperationState.CLAIMED, event="operation.claimed",
            changes={"token": row.token + 1, "lease_expires_at": now + LEASE}, now=now,
        )  # fmt: skip
        args = json.loads(unseal(row.args_sealed, purpose=f"operation.args:{row.id}"))
        return OperationClaim(
            id=row.id, node_id=row.node_id, kind=row.kind, object_id=row.object_id, args=args, token=row.token,
            deadline_at=row.deadline_at,
        )  # fmt: skip


def operation_finish(
    *, operation_id: uuid.UUID, token: int, ok: bool, result: dict[str, Any], now: dt.datetime
) -> NodeOperation | None:
    """Closes an operation; returns None when the token is not current or it was closed before."""
    with system_scope():
        row = NodeOperation.objects.select_for_update().filter(pk=operation_id).first()
        if row is None or row.token != token or row.state != OperationState.CLAIMED:
            return None
        return state.moved(
            row, expect=[OperationState.CLAIMED],
            to=OperationState.DONE if ok else OperationState.FAILED,
            event="operation.done" if ok else "operation.failed", changes={"result": result}, now=now,
        )  # fmt: skip


def operations_requeue_of_link(*, node_id: uuid.UUID, now: dt.datetime) -> list[uuid.UUID]:
    """Frees the leases of a node whose link was just made anew, so that its operations are sent again at once."""
    with system_scope():
        rows = NodeOperation.objects.filter(node_id=node_id, state=OperationState.CLAIMED).values_list("pk", flat=True)
        freed = []
        for pk in list(rows):
            try:
                state.transition(
                    NodeOperation, pk, expect=[OperationState.CLAIMED], to=OperationState.QUEUED,
                    event="operation.requeued", wishes=[Wish("node.run_operation", str(pk))], now=now,
                )  # fmt: skip
                freed.append(pk)
            except StateConflict:
                continue
        return freed


def operations_expire(*, now: dt.datetime, limit: int = 200) -> list[tuple[str, uuid.UUID]]:
    """Fails operations past their deadline; returns (kind, object id) of each for the routes to react."""
    with system_scope():
        rows = list(NodeOperation.objects.filter(state__in=LIVE, deadline_at__lte=now).order_by("deadline_at")[:limit])
        expired = []
        for row in rows:
            try:
                state.transition(
                    NodeOperation, row.id, expect=LIVE, to=OperationState.FAILED, event="operation.expired",
                    changes={"result": {"error": "not done before its deadline"}}, now=now,
                )  # fmt: skip
                expired.append((row.kind, row.object_id))
            except StateConflict:
                continue
        return expired


def operations_cancel(*, kind: str, object_id: uuid.UUID, now: dt.datetime) -> None:
    """Fails the live operation of a kind for an object, if there is one, in the open transaction."""
    for pk in NodeOperation.objects.filter(kind=kind, object_id=object_id, state__in=LIVE).values_list("pk", flat=True):
        state.transition(
            NodeOperation, pk, expect=LIVE, to=OperationState.FAILED, event="operation.cancelled",
            changes={"result": {"error": "no longer wanted"}}, now=now,
        )  # fmt: skip
