"""How jobs look in JSON."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.core.rest.serializers import PageQuery, Strict
from apps.workloads.choices import AttemptState, EndReason, JobResult, JobState, PendingReason
from apps.workloads.reasons import end_words, pending_words
from apps.workloads.selectors.streams import MAX_READ
from apps.workloads.types import InputFile, JobSpec, JobView

MIB = 1 << 20
SHOWN_STATES = [*JobState.choices, *JobResult.choices]


class FileIn(Strict):
    """An uploaded file that the container sees read-only below /berth/in."""

    path = serializers.CharField(max_length=255, trim_whitespace=False)
    sha256 = serializers.CharField(max_length=64)


class JobSpecIn(Strict):
    """A job. Only name, image and command are required."""

    name = serializers.CharField(max_length=63)
    image = serializers.CharField(max_length=255)
    command = serializers.ListField(
        child=serializers.CharField(trim_whitespace=False, allow_blank=True), allow_empty=False, max_length=4096
    )
    env = serializers.DictField(
        child=serializers.CharField(trim_whitespace=False, allow_blank=True),
        required=False,
        help_text="Environment; values are sealed and never shown again.",
    )
    gpus = serializers.IntegerField(min_value=0, max_value=64, required=False, help_text="Whole GPUs; 1 by default.")
    gpu_model = serializers.CharField(max_length=120, allow_blank=True, required=False)
    gpu_memory_mib = serializers.IntegerField(min_value=0, max_value=2**32, required=False)
    cpus = serializers.FloatField(min_value=0.1, max_value=1024, required=False, help_text="Cores; 1 by default.")
    memory_mib = serializers.IntegerField(min_value=32, max_value=2**26, required=False)
    shm_mib = serializers.IntegerField(min_value=1, max_value=2**26, required=False)
    time_limit_s = serializers.IntegerField(min_value=1, max_value=90 * 86_400, required=False)
    max_retries = serializers.IntegerField(min_value=0, max_value=100, required=False)
    files = serializers.ListField(child=FileIn(), max_length=1000, required=False)


class JobSpecChanges(JobSpecIn):
    """Fields of a spec that a clone changes; what is left out stays as in the cloned job."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Returns the same fields, none of them required."""
        fields = super().get_fields()
        for field in fields.values():
            field.required = False
        return fields


def spec_fields(given: dict[str, Any]) -> dict[str, Any]:
    """Returns checked input under the names of JobSpec."""
    values = dict(given)
    if "cpus" in values:
        values["cpu_milli"] = round(values.pop("cpus") * 1000)
    if "command" in values:
        values["command"] = tuple(values["command"])
    if "files" in values:
        values["files"] = tuple(InputFile(**file) for file in values["files"])
    return values


class JobsQuery(PageQuery):
    """The query of the list of jobs."""

    cursor = serializers.UUIDField(required=False, help_text="`next_cursor` of the page before.")  # type: ignore[assignment]
    state = serializers.ChoiceField(choices=SHOWN_STATES, default="", help_text="A state or a result.")
    search = serializers.CharField(max_length=100, default="", allow_blank=True, help_text="A part of the name.")


class AttemptQuery(Strict):
    """Which attempt."""

    attempt = serializers.IntegerField(
        min_value=1, max_value=2**31 - 1, required=False, help_text="Number of the attempt; the newest by default."
    )


class LogQuery(AttemptQuery):
    """Which bytes."""

    offset = serializers.IntegerField(
        min_value=-(2**53), max_value=2**53, default=0, help_text="First byte; a negative one counts from the end."
    )
    limit = serializers.IntegerField(min_value=1, max_value=MAX_READ, default=MIB, help_text="Bytes at most.")


class ReadingsQuery(Strict):
    """Since when."""

    since = serializers.DateTimeField(required=False, help_text="Only readings after this time.")


class JobFileOut(serializers.Serializer[Any]):
    """A file of a job."""

    path = serializers.CharField()
    sha256 = serializers.CharField()
    size = serializers.IntegerField()


class SpecOut(serializers.Serializer[JobSpec]):
    """A spec as it is shown: names of the environment, never its values."""

    name = serializers.CharField()
    image = serializers.CharField()
    command = serializers.ListField(child=serializers.CharField())
    env_names = serializers.SerializerMethodField()
    gpus = serializers.IntegerField()
    gpu_model = serializers.CharField()
    gpu_memory_mib = serializers.IntegerField()
    cpus = serializers.SerializerMethodField()
    memory_mib = serializers.IntegerField()
    shm_mib = serializers.IntegerField()
    time_limit_s = serializers.IntegerField()
    max_retries = serializers.IntegerField()
    files = JobFileOut(many=True)

    def get_env_names(self, spec: JobSpec) -> list[str]:
        """Names only."""
        return sorted(spec.env)

    def get_cpus(self, spec: JobSpec) -> float:
        """Cores."""
        return spec.cpu_milli / 1000


class WaitsOut(serializers.Serializer[Any]):
    """Why a job waits."""

    reason = serializers.ChoiceField(choices=PendingReason.choices)
    text = serializers.CharField()
    next_step = serializers.CharField()
    numbers = serializers.DictField(child=serializers.JSONField())


class EndOut(serializers.Serializer[Any]):
    """How a job ended."""

    reason = serializers.ChoiceField(choices=EndReason.choices)
    text = serializers.CharField()
    next_step = serializers.CharField()
    detail = serializers.CharField()
    exit_code = serializers.IntegerField(allow_null=True)
    signal = serializers.CharField()


class AttemptOut(serializers.Serializer[Any]):
    """One try at a job."""

    id = serializers.UUIDField()
    no = serializers.IntegerField()
    state = serializers.ChoiceField(choices=AttemptState.choices)
    node = serializers.CharField(source="node_name")
    end_reason = serializers.CharField()
    end_detail = serializers.CharField()
    exit_code = serializers.IntegerField(allow_null=True)
    signal = serializers.CharField()
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    gpu_uuids = serializers.ListField(child=serializers.CharField())
    log_bytes = serializers.IntegerField()
    log_sha256 = serializers.CharField()
    log_truncated = serializers.BooleanField()
    outputs_bytes = serializers.IntegerField()
    outputs_sha256 = serializers.CharField()
    progress = serializers.DictField(child=serializers.JSONField())


class JobOut(serializers.Serializer[JobView]):
    """A job: a command in a container on GPUs that runs to its end."""

    id = serializers.UUIDField()
    name = serializers.CharField(source="spec.name")
    state = serializers.ChoiceField(choices=JobState.choices)
    result = serializers.ChoiceField(choices=JobResult.choices, allow_blank=True)
    shown_state = serializers.ChoiceField(choices=SHOWN_STATES, help_text="The state, or the result of an ended job.")
    seq = serializers.IntegerField(help_text="Number of the newest event.")
    spec = SpecOut()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    cancel_requested_at = serializers.DateTimeField(allow_null=True)
    waits = serializers.SerializerMethodField()
    end = serializers.SerializerMethodField()
    attempts = AttemptOut(many=True)
    gpu_seconds = serializers.FloatField(allow_null=True, help_text="Null in lists.")

    @extend_schema_field(WaitsOut(allow_null=True))
    def get_waits(self, job: JobView) -> dict[str, Any] | None:
        """Why it waits, in the language of the request."""
        words = pending_words(job)
        if words is None:
            return None
        return {
            "reason": job.pending_reason, "text": words.text, "next_step": words.next_step,
            "numbers": dict(job.pending_detail),
        }  # fmt: skip

    @extend_schema_field(EndOut(allow_null=True))
    def get_end(self, job: JobView) -> dict[str, Any] | None:
        """How it ended, in the language of the request."""
        words = end_words(job)
        if words is None:
            return None
        attempt = job.attempt
        return {
            "reason": job.end_reason, "text": words.text, "next_step": words.next_step, "detail": job.end_detail,
            "exit_code": attempt.exit_code if attempt else None, "signal": attempt.signal if attempt else "",
        }  # fmt: skip


class ReadingOut(serializers.Serializer[Any]):
    """One reading of one GPU; null means unknown."""

    gpu_uuid = serializers.CharField()
    at = serializers.DateTimeField()
    utilisation_percent = serializers.FloatField(allow_null=True)
    memory_used_mib = serializers.FloatField(allow_null=True)
    temperature_celsius = serializers.FloatField(allow_null=True)
    power_watts = serializers.FloatField(allow_null=True)
    sm_clock_mhz = serializers.FloatField(allow_null=True)


class UsageOut(serializers.Serializer[Any]):
    """One metered interval; null while it is open."""

    gpu_count = serializers.IntegerField()
    gpu_model = serializers.CharField()
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    gpu_seconds = serializers.FloatField(allow_null=True)
    source = serializers.CharField()  # type: ignore[assignment] # a field; DRF takes it off the class
