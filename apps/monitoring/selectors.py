"""Reading samples."""

import datetime as dt
from collections.abc import Sequence

from apps.monitoring.models import GpuSample
from apps.monitoring.types import GpuReading


def gpu_readings(
    *, gpu_uuids: Sequence[str], since: dt.datetime, until: dt.datetime | None = None, limit: int = 2000
) -> list[GpuReading]:
    """Returns readings of some GPUs after a time, oldest first; the caller has checked who may see these GPUs."""
    rows = GpuSample.objects.filter(gpu_uuid__in=list(gpu_uuids), at__gt=since)
    if until is not None:
        rows = rows.filter(at__lte=until)
    return [
        GpuReading(
            gpu_uuid=row.gpu_uuid, at=row.at, utilisation_percent=row.utilisation_percent,
            memory_used_mib=row.memory_used_mib, temperature_celsius=row.temperature_celsius,
            power_watts=row.power_watts, sm_clock_mhz=row.sm_clock_mhz,
        )
        for row in rows.order_by("at")[:limit]
    ]  # fmt: skip
