"""Messages to people: rows first, then the wire."""

from django.db import models
from django.db.models.functions import Now

from apps.core import ids
from apps.notifications.choices import NotificationState


class Notification(models.Model):
    """One message to one address; `dedupe_key` makes a repeated cause send one message."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE)
    dedupe_key = models.CharField(max_length=128, unique=True)
    address = models.EmailField()
    subject = models.CharField(max_length=255)
    body = models.TextField()
    status = models.CharField(max_length=16, choices=NotificationState.choices, default=NotificationState.PENDING)
    tries = models.IntegerField(default=0)
    next_try_at = models.DateTimeField(db_default=Now())
    last_error = models.TextField(blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(
                fields=["next_try_at"], condition=models.Q(status=NotificationState.PENDING), name="notification_due"
            )
        ]

    def __str__(self) -> str:
        return f"{self.subject} → {self.address} ({self.status})"
