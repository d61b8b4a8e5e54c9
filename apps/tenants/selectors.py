"""Reading tenants."""

import uuid

from apps.core.tenancy import tenant_scope
from apps.tenants.choices import Resource
from apps.tenants.models import QuotaUse, Tenant
from apps.tenants.types import QuotaView, TenantRef


def tenant_refs(tenant_ids: list[uuid.UUID]) -> list[TenantRef]:
    """Returns the tenants with these ids, by name."""
    return [
        TenantRef(id=t.id, slug=t.slug, name=t.name) for t in Tenant.objects.filter(pk__in=tenant_ids).order_by("name")
    ]


def tenant_by_slug(slug: str) -> TenantRef | None:
    """Returns the tenant with this short name, or None."""
    row = Tenant.objects.filter(slug=slug).first()
    return TenantRef(id=row.id, slug=row.slug, name=row.name) if row else None


def quota_list(*, tenant: TenantRef) -> list[QuotaView]:
    """Returns the tenant's counters."""
    with tenant_scope(tenant.id):
        rows = QuotaUse.objects.filter(tenant_id=tenant.id).order_by("resource")
        return [QuotaView(resource=q.resource, used=q.used, ceiling=q.ceiling) for q in rows]


def gpus_left_by_tenant(tenant_ids: set[uuid.UUID]) -> dict[uuid.UUID, int | None]:
    """Returns how many more GPUs each tenant may use now (None: unlimited), inside the caller's scope."""
    rows = QuotaUse.objects.filter(tenant_id__in=tenant_ids, resource=Resource.GPUS)
    return {row.tenant_id: None if row.ceiling is None else row.ceiling - row.used for row in rows}
