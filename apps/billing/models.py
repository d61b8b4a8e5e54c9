"""Usage with its evidence: who used what from when to when, each second once."""

from django.db import models

from apps.core import ids


class UsageInterval(models.Model):
    """A metered stretch of one allocation; `seconds` comes from the node's monotonic clock."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT)
    allocation_id = models.UUIDField()
    slice = models.IntegerField(default=0)
    object_kind = models.CharField(max_length=16)
    object_id = models.UUIDField()
    gpu_count = models.IntegerField()
    gpu_model = models.CharField(max_length=120, blank=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    seconds = models.DecimalField(max_digits=18, decimal_places=6, null=True, blank=True)
    source = models.CharField(max_length=32, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["allocation_id", "slice"], name="usage_once"),
            models.CheckConstraint(
                condition=models.Q(seconds__isnull=True) | models.Q(seconds__gte=0), name="usage_not_negative"
            ),
        ]
        indexes = [models.Index(fields=["tenant", "started_at"], name="usage_tenant_started")]

    def __str__(self) -> str:
        return f"{self.object_kind} {self.object_id} {self.gpu_count} GPU {self.seconds} s"
