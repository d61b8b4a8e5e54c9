"""Opening and closing metered intervals, in the transaction of the state change that causes them."""

import datetime as dt
import uuid
from decimal import Decimal

from apps.billing.models import UsageInterval

NANO = Decimal(1_000_000_000)


def usage_open(
    *,
    tenant_id: uuid.UUID,
    allocation_id: uuid.UUID,
    object_kind: str,
    object_id: uuid.UUID,
    gpu_count: int,
    gpu_model: str,
    started_at: dt.datetime,
) -> None:
    """Begins metering an allocation; a repeat changes nothing."""
    interval = UsageInterval(
        allocation_id=allocation_id, slice=0, tenant_id=tenant_id, object_kind=object_kind, object_id=object_id,
        gpu_count=gpu_count, gpu_model=gpu_model, started_at=started_at,
    )  # fmt: skip
    UsageInterval.objects.bulk_create([interval], ignore_conflicts=True)


def usage_close(*, allocation_id: uuid.UUID, ran_ns: int, source: str) -> None:
    """Ends metering after `ran_ns` nanoseconds by the node's monotonic clock; a repeat changes nothing."""
    row = UsageInterval.objects.select_for_update().filter(allocation_id=allocation_id, slice=0, ended_at=None).first()
    if row is None:
        return
    seconds = (Decimal(max(0, ran_ns)) / NANO).quantize(Decimal("0.000001"))
    row.seconds = seconds
    row.ended_at = row.started_at + dt.timedelta(seconds=float(seconds))
    row.source = source
    row.save(update_fields=["seconds", "ended_at", "source"])
