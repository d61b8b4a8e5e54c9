"""Reading messages."""

import datetime as dt
import uuid

from apps.core.tenancy import system_scope
from apps.notifications.choices import NotificationState
from apps.notifications.models import Notification


def notification_cause(notification_id: uuid.UUID) -> str:
    """Returns what a message is about, as the key that keeps it from being written twice; empty when there is none."""
    with system_scope():
        rows = Notification.objects.filter(pk=notification_id)
        return rows.values_list("dedupe_key", flat=True).first() or ""


def notification_ids_due(*, now: dt.datetime, limit: int) -> list[uuid.UUID]:
    """Returns ids of messages that wait for the wire, oldest first; for the relay's sweep."""
    with system_scope():
        rows = Notification.objects.filter(status=NotificationState.PENDING, next_try_at__lte=now)
        return list(rows.order_by("next_try_at").values_list("id", flat=True)[:limit])
