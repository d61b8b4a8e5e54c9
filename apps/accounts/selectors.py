"""Reading people; building the actor that carries a person's grants."""

import uuid
from typing import TypedDict, Unpack

from apps.accounts.models import Membership, User
from apps.core.access import Actor, ActorKind
from apps.core.tenancy import system_scope
from apps.tenants.choices import OPERATOR_PERMISSIONS, ROLE_PERMISSIONS
from apps.tenants.selectors import tenant_refs
from apps.tenants.types import TenantRef

ANONYMOUS = Actor(kind=ActorKind.ANONYMOUS, id="", label="anonymous")


class RequestFacts(TypedDict, total=False):
    """Where an act comes from."""

    address: str
    user_agent: str
    request_id: str


def actor_for(user: User, **facts: Unpack[RequestFacts]) -> Actor:
    """Returns the person as an actor with all grants; one query."""
    with system_scope():
        rows = list(Membership.objects.filter(user=user).values_list("tenant_id", "role"))
    return Actor(
        kind=ActorKind.USER,
        id=str(user.id),
        label=user.email,
        tenant_grants={tenant_id: ROLE_PERMISSIONS[role] for tenant_id, role in rows},
        platform_grants=OPERATOR_PERMISSIONS if user.is_operator else frozenset(),
        **facts,
    )


def tenants_of(actor: Actor) -> list[TenantRef]:
    """Returns the tenants that the actor belongs to, by name."""
    return tenant_refs(list(actor.tenant_grants))


def memberships_of(user: User) -> list[tuple[TenantRef, str]]:
    """Returns the person's tenants with his role in each, by the tenant's name."""
    with system_scope():
        roles = dict(Membership.objects.filter(user=user).values_list("tenant_id", "role"))
    return [(tenant, roles[tenant.id]) for tenant in tenant_refs(list(roles))]


def mail_recipient(*, tenant_id: uuid.UUID, user_id: uuid.UUID) -> tuple[str, str] | None:
    """Returns (address, language) of an active member, inside the caller's scope; None when he has left."""
    row = (
        Membership.objects.filter(tenant_id=tenant_id, user_id=user_id, user__is_active=True)
        .select_related("user")
        .first()
    )
    return (row.user.email, row.user.language) if row else None
