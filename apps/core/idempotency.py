"""Idempotency-Key: the same request again gets the same answer, and its work is done once."""

import datetime as dt
import hashlib
import uuid

from django.db import IntegrityError, OperationalError, connection, transaction

from apps.core.access import Actor
from apps.core.errors import IdempotencyInFlight, IdempotencyMismatch
from apps.core.models import IdempotencyRecord
from apps.core.tenancy import system_scope

KEPT = dt.timedelta(hours=24)
TWIN_WAIT = "3s"


def begin(
    *, tenant_id: uuid.UUID, actor: Actor, route: str, key: str, body: bytes, now: dt.datetime
) -> IdempotencyRecord:
    """Claims the key for this request inside the open transaction, or returns the record with its answer.

    A concurrent first request holds the row's unique index until it commits, so a twin waits for its answer;
    one whose transaction rolled back leaves nothing behind. Raises IdempotencyMismatch for another body.
    """
    digest = hashlib.sha256(body).hexdigest()
    who = {"tenant_id": tenant_id, "actor_id": actor.id, "route": route, "key": key}
    record: IdempotencyRecord | None
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [TWIN_WAIT])
            record = IdempotencyRecord.objects.create(**who, body_sha256=digest)
            cursor.execute("SELECT set_config('lock_timeout', '0', true)")
            return record
    except IntegrityError:
        record = IdempotencyRecord.objects.filter(**who).first()
        if record is not None and record.created_at < now - KEPT:
            record.delete()
            return begin(tenant_id=tenant_id, actor=actor, route=route, key=key, body=body, now=now)
    except OperationalError:  # the first request holds the key longer than a twin waits
        record = None
    if record is None or record.answer_status is None:
        raise IdempotencyInFlight("Repeat the request in a moment with the same Idempotency-Key.")
    if record.body_sha256 != digest:
        raise IdempotencyMismatch("Use a new Idempotency-Key for a different request.")
    return record


def forget_old(*, now: dt.datetime) -> int:
    """Deletes answers past their day; returns how many."""
    with system_scope():
        return IdempotencyRecord.objects.filter(created_at__lt=now - KEPT).delete()[0]


def finish(record: IdempotencyRecord, *, status: int, answer: object) -> None:
    """Keeps the answer with the key, in the transaction that did the work."""
    record.answer_status = status
    record.answer = answer
    record.save(update_fields=["answer_status", "answer"])
