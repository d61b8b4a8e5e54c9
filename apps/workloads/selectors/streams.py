"""The bytes of an attempt: ranges, tails, whole downloads; always raw, only views escape."""

import dataclasses
import uuid
from collections.abc import Iterator

from django.db.models import FilteredRelation, Q

from apps.core.access import Actor, Permission, require
from apps.core.errors import NotFound
from apps.core.tenancy import system_scope, tenant_scope
from apps.storage.blobs import blob_chunks, blob_store
from apps.tenants.types import TenantRef
from apps.workloads.choices import AttemptState
from apps.workloads.models import Attempt, ByteStream

MAX_READ = 4 << 20


def stream_key(attempt_id: uuid.UUID, stream: int) -> str:
    """Returns the blob key of a stream."""
    return f"streams/{attempt_id}/{stream}"


@dataclasses.dataclass(frozen=True)
class StreamInfo:
    """What stands of a stream: `length` bytes; `complete` once nothing more will come."""

    attempt_id: uuid.UUID
    attempt_no: int
    stream: int
    length: int
    sha256: str
    truncated: bool
    complete: bool


def stream_info(
    *, actor: Actor, tenant: TenantRef, job_id: uuid.UUID, stream: int, attempt_no: int | None = None
) -> StreamInfo:
    """Returns the state of a stream of the job's newest attempt, or of attempt `attempt_no`; raises NotFound."""
    require(actor, Permission.JOB_VIEW, tenant_id=tenant.id)
    with tenant_scope(tenant.id):
        attempts = Attempt.objects.filter(tenant_id=tenant.id, job_id=job_id).order_by("-no")
        if attempt_no:
            attempts = attempts.filter(no=attempt_no)
        found = (
            attempts.annotate(kept=FilteredRelation("streams", condition=Q(streams__stream=stream)))
            .values_list("id", "no", "state", "kept__length", "kept__sha256", "kept__truncated")
            .first()
        )
        if found is None:
            raise NotFound("The job has no such attempt yet.")
        attempt_id, no, state, length, sha256, truncated = found
        return StreamInfo(
            attempt_id=attempt_id, attempt_no=no, stream=stream, length=length or 0, sha256=sha256 or "",
            truncated=bool(truncated), complete=state == AttemptState.ENDED,
        )  # fmt: skip


def stream_read(info: StreamInfo, *, offset: int, length: int) -> bytes:
    """Returns at most `length` bytes (4 MiB at most) from the offset; a negative offset counts from the end."""
    begin = max(0, info.length + offset) if offset < 0 else offset
    wanted = min(length, MAX_READ, info.length - begin)
    return blob_store().read(stream_key(info.attempt_id, info.stream), begin, wanted) if wanted > 0 else b""


def stream_chunks(info: StreamInfo) -> Iterator[bytes]:
    """Yields the whole stream as it stands, in pieces."""
    return blob_chunks(stream_key(info.attempt_id, info.stream), info.length)


def stream_durable_lengths(*, attempt_ids: list[uuid.UUID]) -> dict[uuid.UUID, dict[int, int]]:
    """Returns how many bytes of each stream are durable here, for the agent's resume."""
    found: dict[uuid.UUID, dict[int, int]] = {}
    with system_scope():
        for attempt_id, stream, length in ByteStream.objects.filter(attempt_id__in=attempt_ids).values_list(
            "attempt_id", "stream", "length"
        ):
            found.setdefault(attempt_id, {})[stream] = length
    return found
