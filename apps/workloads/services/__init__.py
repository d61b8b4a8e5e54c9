"""Everything that changes jobs: what people ask, what the scheduler decides, what nodes report."""

from apps.workloads.services.endings import attempt_ended, attempts_lost_with_node
from apps.workloads.services.people import job_cancel, job_requeue, job_submit
from apps.workloads.services.placing import pending_explain, placement_apply
from apps.workloads.services.reports import (
    attempt_accepted,
    attempt_progressed,
    attempt_removed,
    attempt_running,
    attempt_stuck,
    attempts_overdue_stop,
    attempts_reconcile,
    foreign_remove_ask,
    removal_ask_again,
    start_expired,
)
from apps.workloads.services.streams import stream_extend, stream_seal

__all__ = [
    "attempt_accepted",
    "attempt_ended",
    "attempt_progressed",
    "attempt_removed",
    "attempt_running",
    "attempt_stuck",
    "attempts_lost_with_node",
    "attempts_overdue_stop",
    "attempts_reconcile",
    "foreign_remove_ask",
    "job_cancel",
    "job_requeue",
    "job_submit",
    "pending_explain",
    "placement_apply",
    "removal_ask_again",
    "start_expired",
    "stream_extend",
    "stream_seal",
]
