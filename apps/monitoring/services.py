"""Taking in readings and forgetting old ones."""

import dataclasses
import datetime as dt
from collections.abc import Sequence

from apps.monitoring.models import GpuSample
from apps.monitoring.types import GpuReading

KEPT = dt.timedelta(days=2)


def readings_store(*, readings: Sequence[GpuReading]) -> None:
    """Writes readings in one statement."""
    GpuSample.objects.bulk_create(GpuSample(**dataclasses.asdict(reading)) for reading in readings)


def readings_forget(*, now: dt.datetime) -> int:
    """Deletes readings older than two days (roll-ups come with the watching issue); returns how many."""
    return GpuSample.objects.filter(at__lt=now - KEPT).delete()[0]
