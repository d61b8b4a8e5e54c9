"""Rows that every noun shares: events, the outbox and the answers kept for repeated requests."""

from django.db import models
from django.db.models.functions import Now

from apps.core import ids
from apps.core.triggers import AppendOnly, NotifyOnInsert

OUTBOX_CHANNEL = "berth_outbox"


class Event(models.Model):
    """Something that happened to one object; `seq` counts without gaps per object."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    tenant_id = models.UUIDField(null=True, blank=True)
    object_kind = models.CharField(max_length=32)
    object_id = models.UUIDField()
    seq = models.BigIntegerField()
    name = models.CharField(max_length=64)
    data = models.JSONField(default=dict)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["object_id", "seq"], name="event_seq_once")]
        triggers = [AppendOnly(name="event_append_only")]

    def __str__(self) -> str:
        return f"{self.object_kind} {self.object_id} #{self.seq} {self.name}"


class OutboxMessage(models.Model):
    """A wish of a transaction to the outside world, taken up by the relay after the commit."""

    id = models.BigAutoField(primary_key=True)
    topic = models.CharField(max_length=64)
    key = models.CharField(max_length=64)
    payload = models.JSONField(default=dict)
    not_before = models.DateTimeField(db_default=Now())
    attempts = models.IntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["not_before", "id"], name="outbox_due")]
        triggers = [NotifyOnInsert(name="outbox_notify", channel=OUTBOX_CHANNEL)]

    def __str__(self) -> str:
        return f"{self.topic} {self.key}"


class IdempotencyRecord(models.Model):
    """The answer once given to a request with an Idempotency-Key, kept for a day."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    tenant_id = models.UUIDField()
    actor_id = models.CharField(max_length=64)
    route = models.CharField(max_length=128)
    key = models.CharField(max_length=255)
    body_sha256 = models.CharField(max_length=64)
    answer_status = models.IntegerField(null=True, blank=True)
    answer = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "actor_id", "route", "key"], name="idempotency_key_once")
        ]

    def __str__(self) -> str:
        return f"{self.route} {self.key}"
