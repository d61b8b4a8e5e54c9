"""The index of an attempt's bytes; the bytes themselves go from the node worker straight to the blob store."""

import datetime as dt
import uuid

from apps.core import hints
from apps.core.tenancy import system_scope
from apps.fleet.services import link_check
from apps.workloads.models import Attempt, ByteStream


def stream_extend(*, node_id: uuid.UUID, link_token: int, attempt_id: uuid.UUID, stream: int, length: int) -> bool:
    """Says that `length` bytes of a stream stand in the blob store; it never shrinks. False for a foreign attempt."""
    with system_scope():
        link_check(node_id=node_id, token=link_token)
        attempt = Attempt.objects.filter(pk=attempt_id, node_id=node_id).values("tenant_id", "job_id").first()
        if attempt is None:
            return False
        row, new = ByteStream.objects.get_or_create(
            attempt_id=attempt_id, stream=stream, defaults={"tenant_id": attempt["tenant_id"], "length": length}
        )
        if not new:
            ByteStream.objects.filter(pk=row.pk, length__lt=length, sealed_at=None).update(length=length)
        hints.publish_on_commit(
            f"job/{attempt['job_id']}", {"kind": "log", "attempt": str(attempt_id), "stream": stream, "offset": length}
        )
        return True


def stream_seal(
    *, attempt_id: uuid.UUID, stream: int, length: int, sha256: str, truncated: bool, now: dt.datetime
) -> None:
    """Closes a stream with its final length and SHA-256; a repeat changes nothing."""
    with system_scope():
        tenant_id = Attempt.objects.values_list("tenant_id", flat=True).get(pk=attempt_id)
        row, _ = ByteStream.objects.get_or_create(
            attempt_id=attempt_id, stream=stream, defaults={"tenant_id": tenant_id, "length": length}
        )
        ByteStream.objects.filter(pk=row.pk, sealed_at=None).update(
            length=length, sha256=sha256, truncated=truncated, sealed_at=now
        )
