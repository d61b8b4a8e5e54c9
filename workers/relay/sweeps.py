"""What makes rows the truth: each second, everything that waits is found again from its row.

Each sweep is bounded, and one that fails is logged and does not keep the others from running.
"""

import datetime as dt
from collections.abc import Callable

import structlog
from django.conf import settings

from apps.core.clock import utc_now
from apps.core.errors import StateConflict
from apps.fleet.choices import OperationKind
from apps.fleet.selectors import operation_owner, operations_due, scans_due, unreachable_since
from apps.fleet.services import node_mark_down, nodes_mark_silent, operations_expire
from apps.notifications.selectors import notification_ids_due
from apps.workloads.selectors import pending_count, removals_due
from apps.workloads.services import attempts_overdue_stop, removal_ask_again, start_expired
from workers.relay.outbox import send
from workers.routes import own_queue

log = structlog.get_logger(__name__)

RESEND_AFTER = dt.timedelta(seconds=2)
"""A fresh row has its own message under way; the sweep takes up what is older than this."""


def sweep_pending(now: dt.datetime) -> None:
    """Wakes the scheduler while anything waits."""
    if pending_count():
        send("scheduling.cycle", "sweep", "scheduling")


def sweep_operations(now: dt.datetime) -> None:
    """Sends operations again that wait or whose lease ran out, and ends those past their deadline."""
    for operation_id in operations_due(now=now, older_than=now - RESEND_AFTER):
        owner = operation_owner(operation_id)
        if owner:
            send("nodes.run_operation", str(operation_id), own_queue(owner))
    for kind, object_id in operations_expire(now=now):
        if kind == OperationKind.ATTEMPT_START:
            start_expired(attempt_id=object_id, now=now)


def sweep_nodes(now: dt.datetime) -> None:
    """Marks silent nodes unreachable, long unreachable ones down, and asks again for host keys."""
    nodes_mark_silent(now=now)
    limit = now - dt.timedelta(seconds=settings.BERTH_NODE_DOWN_AFTER_S)
    for node_id in unreachable_since(before=limit):
        try:
            node_mark_down(node_id=node_id, reason="unreachable for too long", now=now)
        except StateConflict:
            continue  # it came back in this very moment


def sweep_scans(now: dt.datetime) -> None:
    """Asks again for host keys that could not be fetched."""
    if now.second % 5 == 0:
        for node_id in scans_due():
            send("nodes.scan_host_key", str(node_id), "nodes")


def sweep_attempts(now: dt.datetime) -> None:
    """Stops attempts that did not start in time; asks again for traces to be removed."""
    attempts_overdue_stop(now=now)
    for attempt_id in removals_due():
        removal_ask_again(attempt_id=attempt_id, now=now)


def sweep_notifications(now: dt.datetime) -> None:
    """Delivers messages whose time has come (again)."""
    for notification_id in notification_ids_due(now=now, limit=100):
        send("notifications.deliver", str(notification_id), "notifications")


def sweep_old(now: dt.datetime) -> None:
    """Once a minute: forgets what is kept for a limited time."""
    if now.second == 0:
        send("metering.forget_old", "sweep", "metering")


SWEEPS: tuple[Callable[[dt.datetime], None], ...] = (
    sweep_pending,
    sweep_operations,
    sweep_nodes,
    sweep_scans,
    sweep_attempts,
    sweep_notifications,
    sweep_old,
)


def sweep_all() -> None:
    """Runs every sweep once."""
    for sweep in SWEEPS:
        try:
            sweep(utc_now())
        except Exception as error:  # the loop must outlive a bad row and a lost server
            log.warning("sweep.failed", sweep=sweep.__name__, error=f"{type(error).__name__}: {error}")
