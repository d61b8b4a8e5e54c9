"""Tasks of the queue `notifications`."""

import uuid

from celery import shared_task

from apps.core.clock import utc_now
from apps.core.failpoints import failpoint
from apps.notifications.services import notification_deliver
from workers import points


@shared_task(name="notifications.deliver")
def deliver(key: str, asked_at: float) -> None:
    """Sends one message to its address."""
    failpoint("S14", points.of_message(key))
    notification_deliver(notification_id=uuid.UUID(key), now=utc_now())
