"""Jobs, their attempts, what is allocated to them, and the index of their bytes."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.core import ids
from apps.core.triggers import StateMachine
from apps.fleet.choices import WHOLE_SHARE
from apps.workloads.choices import (
    ATTEMPT_TRANSITIONS,
    JOB_TRANSITIONS,
    AttemptState,
    EndReason,
    JobResult,
    JobState,
    PendingReason,
    Stream,
)


class Job(models.Model):
    """A command in a container on GPUs that runs to its end."""

    EVENT_KIND: ClassVar[str] = "job"

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True)
    created_by_label = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now())

    name = models.CharField(max_length=63)
    image = models.CharField(max_length=255)
    command = models.JSONField()
    env_names = models.JSONField(default=list)
    env_sealed = models.BinaryField()
    gpus = models.IntegerField()
    gpu_model = models.CharField(max_length=120, blank=True)
    gpu_memory_mib = models.BigIntegerField(default=0)
    cpu_milli = models.BigIntegerField()
    memory_mib = models.BigIntegerField()
    shm_mib = models.BigIntegerField()
    time_limit_s = models.BigIntegerField()
    max_retries = models.IntegerField(default=0)
    files = models.JSONField(default=list)

    state = models.CharField(max_length=16, choices=JobState.choices, default=JobState.PENDING)
    state_changed_at = models.DateTimeField(db_default=Now())
    seq = models.BigIntegerField(default=0)
    pending_reason = models.CharField(max_length=32, choices=PendingReason.choices, blank=True)
    pending_detail = models.JSONField(default=dict)
    pending_since = models.DateTimeField(db_default=Now())
    result = models.CharField(max_length=16, choices=JobResult.choices, blank=True)
    end_reason = models.CharField(max_length=32, choices=EndReason.choices, blank=True)
    end_detail = models.TextField(blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    retries_used = models.IntegerField(default=0)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=(Q(state=JobState.PENDING) & ~Q(pending_reason=""))
                | (~Q(state=JobState.PENDING) & Q(pending_reason="")),
                name="job_pending_has_reason",
            ),
            models.CheckConstraint(
                condition=(Q(state=JobState.ENDED) & ~Q(end_reason="") & ~Q(result=""))
                | (~Q(state=JobState.ENDED) & Q(result="")),
                name="job_ended_has_reason",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "-id"], name="job_tenant_newest"),
            models.Index(fields=["pending_since", "id"], condition=Q(state=JobState.PENDING), name="job_pending"),
            models.Index(
                fields=["state_changed_at"],
                condition=Q(state__in=[JobState.PLACED, JobState.STARTING, JobState.RUNNING, JobState.STOPPING]),
                name="job_active",
            ),
        ]
        triggers = [StateMachine(name="job_state", initial=[JobState.PENDING], transitions=JOB_TRANSITIONS)]

    def __str__(self) -> str:
        return self.name


class Attempt(models.Model):
    """One try at a job on one node; a job has at most one live one."""

    EVENT_KIND: ClassVar[str] = ""  # the events of its job tell its story

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts")
    no = models.IntegerField()
    node = models.ForeignKey("fleet.Node", on_delete=models.PROTECT)
    created_at = models.DateTimeField(db_default=Now())
    state = models.CharField(max_length=16, choices=AttemptState.choices, default=AttemptState.PLACED)
    state_changed_at = models.DateTimeField(db_default=Now())
    seq = models.BigIntegerField(default=0)
    deadline_at = models.DateTimeField(null=True, blank=True)
    progress = models.JSONField(default=dict)
    container_id = models.CharField(max_length=128, blank=True)
    node_boot_id = models.CharField(max_length=64, blank=True)
    node_status_seq = models.BigIntegerField(default=0)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    ran_ns = models.BigIntegerField(null=True, blank=True)
    end_reason = models.CharField(max_length=32, choices=EndReason.choices, blank=True)
    end_detail = models.TextField(blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    signal = models.CharField(max_length=16, blank=True)
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "no"], name="attempt_no_once"),
            models.UniqueConstraint(fields=["job"], condition=~Q(state=AttemptState.ENDED), name="attempt_live_once"),
            models.CheckConstraint(
                condition=~Q(state=AttemptState.ENDED) | ~Q(end_reason=""), name="attempt_ended_has_reason"
            ),
        ]
        indexes = [
            models.Index(fields=["deadline_at"], condition=~Q(state=AttemptState.ENDED), name="attempt_deadline"),
            models.Index(fields=["node"], condition=~Q(state=AttemptState.ENDED), name="attempt_live_on_node"),
        ]
        triggers = [StateMachine(name="attempt_state", initial=[AttemptState.PLACED], transitions=ATTEMPT_TRANSITIONS)]

    def __str__(self) -> str:
        return f"{self.job_id} #{self.no}"


class Allocation(models.Model):
    """The room that an attempt holds on its node until it ends."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT)
    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE)
    node = models.ForeignKey("fleet.Node", on_delete=models.PROTECT)
    cpu_milli = models.BigIntegerField()
    memory_mib = models.BigIntegerField()
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"allocation of {self.attempt_id}"


class AllocationDevice(models.Model):
    """A GPU, or a share of it, in an allocation; a whole one is held by one open allocation only."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT)
    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="devices")
    gpu = models.ForeignKey("fleet.GpuDevice", on_delete=models.PROTECT)
    share = models.IntegerField(default=WHOLE_SHARE)
    is_open = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["gpu"], condition=Q(is_open=True, share=WHOLE_SHARE), name="gpu_whole_held_once"
            ),
            models.CheckConstraint(condition=Q(share__gte=1, share__lte=WHOLE_SHARE), name="device_share_in_whole"),
        ]

    def __str__(self) -> str:
        return f"{self.share}/{WHOLE_SHARE} of {self.gpu_id}"


class ByteStream(models.Model):
    """The index of one stream of an attempt: how many bytes stand in the blob store, and what they must be."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT)
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="streams")
    stream = models.IntegerField(choices=Stream.choices)
    length = models.BigIntegerField(default=0)
    sha256 = models.CharField(max_length=64, blank=True)
    truncated = models.BooleanField(default=False)
    sealed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "stream"], name="byte_stream_once"),
            models.CheckConstraint(condition=Q(length__gte=0), name="byte_stream_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.attempt_id} {self.get_stream_display()} {self.length} bytes"
