"""Files that people bring for their jobs."""

from django.db import models
from django.db.models.functions import Now

from apps.core import ids


class StoredFile(models.Model):
    """A tenant's uploaded file, kept once by its content."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE)
    sha256 = models.CharField(max_length=64)
    size = models.BigIntegerField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "sha256"], name="stored_file_once")]

    def __str__(self) -> str:
        return f"{self.sha256[:12]} ({self.size} bytes)"
