"""What the scheduler and the workers ask of jobs."""

import dataclasses
import uuid

from apps.core.tenancy import system_scope
from apps.fleet.choices import NodeState
from apps.workloads.choices import AttemptState, JobState
from apps.workloads.models import AllocationDevice, Attempt, Job
from apps.workloads.types import PendingJob

_FIELDS = tuple(f.name for f in dataclasses.fields(PendingJob) if f.name != "submitted_at")


def pending_jobs(*, limit: int) -> list[PendingJob]:
    """Returns waiting jobs in the order in which they came, inside the caller's scope."""
    rows = Job.objects.filter(state=JobState.PENDING).order_by("pending_since", "id").values(*_FIELDS, "pending_since")
    return [PendingJob(submitted_at=row.pop("pending_since"), **row) for row in rows[:limit]]


def pending_count() -> int:
    """Returns how many jobs wait; for the sweep."""
    with system_scope():
        return Job.objects.filter(state=JobState.PENDING).count()


def attempt_job(attempt_id: uuid.UUID) -> tuple[uuid.UUID, str] | None:
    """Returns (job id, job name) of an attempt."""
    with system_scope():
        return Attempt.objects.filter(pk=attempt_id).values_list("job_id", "job__name").first()


def removals_due(*, limit: int = 100) -> list[uuid.UUID]:
    """Returns ended attempts on reachable nodes whose traces are still to be removed; for the sweep."""
    with system_scope():
        rows = Attempt.objects.filter(state=AttemptState.ENDED, removed_at=None).exclude(
            node__state__in=[NodeState.RETIRED, NodeState.DOWN, NodeState.UNREACHABLE]
        )
        return list(rows.order_by("ended_at").values_list("pk", flat=True)[:limit])


def live_jobs_of_gpus(gpu_uuids: list[str]) -> set[uuid.UUID]:
    """Returns the jobs that hold any of these GPUs."""
    with system_scope():
        rows = AllocationDevice.objects.filter(is_open=True, gpu__uuid__in=gpu_uuids)
        return set(rows.values_list("allocation__attempt__job_id", flat=True))
