"""States, results and reasons of jobs and attempts, and the edges between states."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class JobState(models.TextChoices):
    """Where a job stands."""

    PENDING = "pending", _("pending")
    PLACED = "placed", _("placed")
    STARTING = "starting", _("starting")
    RUNNING = "running", _("running")
    STOPPING = "stopping", _("stopping")
    ENDED = "ended", _("ended")


class JobResult(models.TextChoices):
    """How a job ended."""

    SUCCEEDED = "succeeded", _("succeeded")
    FAILED = "failed", _("failed")
    CANCELLED = "cancelled", _("cancelled")
    LOST = "lost", _("lost")


class PendingReason(models.TextChoices):
    """Why a job waits; exactly one at a time. The words for people are in `reasons.py`."""

    SUBMITTED = "submitted", _("waits for the scheduler")
    NO_NODES = "no_nodes", _("no node is in service")
    NEVER_FITS = "never_fits", _("no node could ever run this")
    GPUS_BUSY = "gpus_busy", _("fitting GPUs are busy")
    ROOM_BUSY = "room_busy", _("CPU or memory is busy")
    BEHIND_OTHERS = "behind_others", _("earlier jobs are first")
    TENANT_GPU_QUOTA = "tenant_gpu_quota", _("the tenant's GPU quota is used up")
    REQUEUED = "requeued", _("requeued, waits for the scheduler")


class EndReason(models.TextChoices):
    """Why a job or attempt ended; the words for people are in `reasons.py`."""

    EXITED = "exited", _("ended by itself")
    EXIT_CODE = "exit_code", _("exit code")
    SIGNAL = "signal", _("ended by a signal")
    OUT_OF_MEMORY = "out_of_memory", _("out of memory")
    TIME_LIMIT = "time_limit", _("time limit")
    CANCELLED = "cancelled", _("cancelled")
    USER_FAULT = "user_fault", _("the job could not start")
    NODE_FAULT = "node_fault", _("fault of the node")
    NODE_LOST = "node_lost", _("the node was lost")


RETRIED = frozenset({EndReason.NODE_FAULT, EndReason.NODE_LOST})
"""Ends that are not the user's doing: the job is requeued while retries allow."""

_J = JobState
JOB_TRANSITIONS: dict[str, tuple[str, ...]] = {
    _J.PENDING: (_J.PLACED, _J.ENDED),
    _J.PLACED: (_J.STARTING, _J.RUNNING, _J.STOPPING, _J.PENDING, _J.ENDED),
    _J.STARTING: (_J.RUNNING, _J.STOPPING, _J.PENDING, _J.ENDED),
    _J.RUNNING: (_J.STOPPING, _J.PENDING, _J.ENDED),
    _J.STOPPING: (_J.ENDED,),
    _J.ENDED: (_J.PENDING,),
}
ACTIVE = (_J.PLACED, _J.STARTING, _J.RUNNING, _J.STOPPING)


class AttemptState(models.TextChoices):
    """Where one try at a job stands."""

    PLACED = "placed", _("placed")
    STARTING = "starting", _("starting")
    RUNNING = "running", _("running")
    STOPPING = "stopping", _("stopping")
    ENDED = "ended", _("ended")


_A = AttemptState
ATTEMPT_TRANSITIONS: dict[str, tuple[str, ...]] = {
    _A.PLACED: (_A.STARTING, _A.RUNNING, _A.STOPPING, _A.ENDED),
    _A.STARTING: (_A.RUNNING, _A.STOPPING, _A.ENDED),
    _A.RUNNING: (_A.STOPPING, _A.ENDED),
    _A.STOPPING: (_A.ENDED,),
    _A.ENDED: (),
}
ATTEMPT_LIVE = (_A.PLACED, _A.STARTING, _A.RUNNING, _A.STOPPING)


class Stream(models.IntegerChoices):
    """The byte streams of an attempt, numbered as in the agent's protocol."""

    LOG = 0, _("log")
    OUTPUTS = 1, _("outputs")
