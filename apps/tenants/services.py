"""Making tenants and moving their counters."""

import datetime as dt
import re
import uuid

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from apps.audit.services import audit_record
from apps.core.access import Actor, Permission, require
from apps.core.errors import InvalidInput, QuotaExceeded
from apps.core.tenancy import system_scope, tenant_scope
from apps.tenants.choices import Resource
from apps.tenants.models import QuotaUse, Tenant
from apps.tenants.types import TenantRef

_SLUG = re.compile(r"^[a-z][a-z0-9-]{0,47}$")


def tenant_create(
    *, actor: Actor, slug: str, name: str, ceilings: dict[str, int] | None = None, now: dt.datetime
) -> TenantRef:
    """Creates a tenant with its counters; raises InvalidInput when the short name is taken."""
    require(actor, Permission.TENANT_MANAGE)
    if not _SLUG.match(slug):
        raise InvalidInput(
            "The tenant can't be made with this short name.",
            errors={"slug": "Use lower-case letters, digits and hyphens, at most 48, beginning with a letter."},
        )
    try:
        with system_scope(), transaction.atomic():
            tenant = Tenant.objects.create(slug=slug, name=name)
            QuotaUse.objects.bulk_create(
                QuotaUse(tenant=tenant, resource=resource, ceiling=(ceilings or {}).get(resource))
                for resource in Resource.values
            )
            audit_record(
                actor=actor, action="tenant.create", object_kind="tenant", object_id=tenant.id,
                object_label=name, tenant_id=tenant.id, after={"slug": slug, "ceilings": ceilings or {}}, now=now,
            )  # fmt: skip
    except IntegrityError as error:
        raise InvalidInput("Another tenant has this short name.", errors={"slug": "Choose another one."}) from error
    return TenantRef(id=tenant.id, slug=tenant.slug, name=tenant.name)


def quota_set(*, actor: Actor, tenant: TenantRef, resource: str, ceiling: int | None, now: dt.datetime) -> None:
    """Sets a ceiling (None: unlimited); what is in use above a lower ceiling stays until it ends."""
    require(actor, Permission.TENANT_MANAGE)
    if ceiling is not None and ceiling < 0:
        raise InvalidInput("A quota can't be negative.", errors={"ceiling": "Give 0 or more."})
    with tenant_scope(tenant.id):
        row = QuotaUse.objects.select_for_update().get(tenant_id=tenant.id, resource=resource)
        before, row.ceiling = row.ceiling, ceiling
        row.save(update_fields=["ceiling"])
        audit_record(
            actor=actor, action="quota.set", object_kind="quota", object_id=row.id, object_label=resource,
            tenant_id=tenant.id, before={"ceiling": before}, after={"ceiling": ceiling}, now=now,
        )  # fmt: skip


def quota_take(*, tenant_id: uuid.UUID, resource: str, amount: int) -> None:
    """Adds to a counter in the open transaction, exact under races; raises QuotaExceeded.

    One conditional UPDATE: the row lock serialises the takers, so the ceiling is never passed by one.
    """
    if not amount:
        return
    moved = (
        QuotaUse.objects.filter(tenant_id=tenant_id, resource=resource)
        .filter(Q(ceiling__isnull=True) | Q(ceiling__gte=F("used") + amount))
        .update(used=F("used") + amount)
    )
    if not moved:
        row = QuotaUse.objects.filter(tenant_id=tenant_id, resource=resource).first()
        used, ceiling = (row.used, row.ceiling) if row else (0, 0)
        raise QuotaExceeded(
            f"The tenant's quota of {ceiling} {resource} is used up ({used} in use, {amount} more asked)."
            " Wait for one to end, cancel one, or ask an owner for a higher quota."
        )


def quota_return(*, tenant_id: uuid.UUID, resource: str, amount: int) -> None:
    """Gives back what `quota_take` added, in the open transaction."""
    QuotaUse.objects.filter(tenant_id=tenant_id, resource=resource).update(used=F("used") - amount)
