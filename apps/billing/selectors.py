"""Reading usage."""

import uuid
from decimal import Decimal

from apps.billing.models import UsageInterval
from apps.billing.types import UsageView
from apps.core.tenancy import tenant_scope
from apps.tenants.types import TenantRef


def usage_of(*, tenant: TenantRef, object_id: uuid.UUID) -> list[UsageView]:
    """Returns the metered intervals of one job, oldest first."""
    with tenant_scope(tenant.id):
        rows = UsageInterval.objects.filter(tenant_id=tenant.id, object_id=object_id).order_by("started_at")
        return [_view(row) for row in rows]


def gpu_seconds_of(*, tenant: TenantRef, object_id: uuid.UUID) -> Decimal:
    """Returns the GPU-seconds of all closed intervals of one job."""
    return sum((u.gpu_seconds for u in usage_of(tenant=tenant, object_id=object_id) if u.gpu_seconds), Decimal(0))


def _view(row: UsageInterval) -> UsageView:
    return UsageView(
        allocation_id=row.allocation_id,
        object_kind=row.object_kind,
        object_id=row.object_id,
        gpu_count=row.gpu_count,
        gpu_model=row.gpu_model,
        started_at=row.started_at,
        ended_at=row.ended_at,
        gpu_seconds=None if row.seconds is None else row.seconds * row.gpu_count,
        source=row.source,
    )
