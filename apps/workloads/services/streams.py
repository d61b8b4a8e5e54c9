"""The index of an attempt's bytes; the bytes themselves go from the node worker straight to the blob store."""

import datetime as dt
import uuid

from django.db import connection

from apps.core import hints, ids
from apps.core.tenancy import system_scope
from apps.fleet.services import link_check
from apps.workloads.models import Attempt, ByteStream

# One round trip for what happens ten times a second and stream: while a job is silent, its first byte waits for this.
_EXTEND = """
    WITH attempt AS (SELECT id, tenant_id, job_id FROM workloads_attempt WHERE id = %s AND node_id = %s),
    extended AS (
        INSERT INTO workloads_bytestream (id, tenant_id, attempt_id, stream, length, sha256, truncated)
        SELECT %s, tenant_id, id, %s, %s, '', false FROM attempt
        ON CONFLICT (attempt_id, stream) DO UPDATE SET length = EXCLUDED.length
        WHERE workloads_bytestream.length < EXCLUDED.length AND workloads_bytestream.sealed_at IS NULL
    )
    SELECT job_id FROM attempt
"""


def stream_extend(*, node_id: uuid.UUID, link_token: int, attempt_id: uuid.UUID, stream: int, length: int) -> bool:
    """Says that `length` bytes of a stream stand in the blob store; it never shrinks. False for a foreign attempt."""
    with system_scope(), connection.cursor() as cursor:
        link_check(node_id=node_id, token=link_token)
        cursor.execute(_EXTEND, [attempt_id, node_id, ids.uuid7(), stream, length])
        found = cursor.fetchone()
        if found is None:
            return False
        hints.publish_on_commit(
            f"job/{found[0]}", {"kind": "log", "attempt": str(attempt_id), "stream": stream, "offset": length}
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
