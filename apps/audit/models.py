"""The audit log: opaque ids with a snapshot of their names, no foreign keys, append-only."""

from django.db import models

from apps.core import ids
from apps.core.triggers import AppendOnly


class AuditEntry(models.Model):
    """One act of a person or a service, allowed or refused."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    tenant_id = models.UUIDField(null=True, blank=True)
    at = models.DateTimeField()
    actor_kind = models.CharField(max_length=16)
    actor_id = models.CharField(max_length=64)
    actor_label = models.CharField(max_length=255)
    action = models.CharField(max_length=64)
    object_kind = models.CharField(max_length=32)
    object_id = models.CharField(max_length=64, blank=True)
    object_label = models.CharField(max_length=255, blank=True)
    before = models.JSONField(null=True, blank=True)
    after = models.JSONField(null=True, blank=True)
    outcome = models.CharField(max_length=16, default="ok")
    address = models.CharField(max_length=64, blank=True)
    user_agent = models.CharField(max_length=255, blank=True)
    request_id = models.CharField(max_length=64, blank=True)

    class Meta:
        indexes = [models.Index(fields=["tenant_id", "-at"], name="audit_tenant_at")]
        triggers = [AppendOnly(name="audit_append_only")]

    def __str__(self) -> str:
        return f"{self.at:%F %T} {self.actor_label} {self.action} {self.object_label}"
