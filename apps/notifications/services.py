"""Writing and delivering messages."""

import datetime as dt
import smtplib
import uuid

from django.conf import settings
from django.core.mail import EmailMessage

from apps.core.outbox import Wish, outbox_put
from apps.core.tenancy import system_scope
from apps.notifications.choices import MAX_TRIES, NotificationState
from apps.notifications.models import Notification

SENDING_LEASE = dt.timedelta(minutes=2)


def notification_create(*, tenant_id: uuid.UUID, dedupe_key: str, address: str, subject: str, body: str) -> None:
    """Writes a message in the open transaction; a second one with the same key changes nothing."""
    row, new = Notification.objects.get_or_create(
        dedupe_key=dedupe_key,
        defaults={"tenant_id": tenant_id, "address": address, "subject": subject[:255], "body": body},
    )
    if new:
        outbox_put([Wish(topic="notification.deliver", key=str(row.id))])


def notification_deliver(*, notification_id: uuid.UUID, now: dt.datetime) -> bool:
    """Sends one message if it is due; returns whether it went out now.

    The row is leased before the wire is touched, so two workers do not both send; a crash between the wire and
    the commit may send a mail twice, which SMTP can't exclude: the Message-ID is the row's, so readers fold twins.
    """
    with system_scope():
        row = (
            Notification.objects.select_for_update(skip_locked=True)
            .filter(pk=notification_id, status=NotificationState.PENDING, next_try_at__lte=now)
            .first()
        )
        if row is None:
            return False
        row.tries += 1
        row.next_try_at = now + SENDING_LEASE
        row.save(update_fields=["tries", "next_try_at"])
    error = _send(row)
    with system_scope():
        if not error:
            row.status, row.sent_at, row.last_error = NotificationState.SENT, now, ""
        else:
            row.last_error = error
            row.next_try_at = now + dt.timedelta(seconds=min(4**row.tries * 5, 6 * 3600))
            if row.tries >= MAX_TRIES:
                row.status = NotificationState.FAILED
        row.save(update_fields=["status", "sent_at", "last_error", "next_try_at"])
    return not error


def _send(row: Notification) -> str:
    message = EmailMessage(
        subject=row.subject,
        body=row.body,
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=[row.address],
        headers={"Message-ID": f"<{row.id}@berth>"},
    )
    try:
        message.send()
    except (OSError, smtplib.SMTPException) as error:
        return f"{type(error).__name__}: {error}"
    return ""
