"""Tasks of the queue `metering`."""

from celery import shared_task
from django.core.management import call_command

from apps.core import idempotency
from apps.core.clock import utc_now
from apps.monitoring.services import readings_forget


@shared_task(name="metering.forget_old")
def forget_old(key: str, asked_at: float) -> None:
    """Forgets readings, kept answers and refresh tokens past their time."""
    readings_forget(now=utc_now())
    idempotency.forget_old(now=utc_now())
    call_command("flushexpiredtokens")
