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


def user_with_tenants(user_id: uuid.UUID) -> User | None:
    """Returns an active person with his memberships read along, for `person_for` to take; one query for both."""
    with system_scope():
        rows = list(
            Membership.objects.filter(user_id=user_id, user__is_active=True)
            .select_related("user", "tenant")
            .order_by("tenant__name")
        )
        user = rows[0].user if rows else User.objects.filter(pk=user_id, is_active=True).first()
    if user is not None:
        user.memberships_read = _roles(rows)
    return user


def _roles(rows: list[Membership]) -> list[tuple[TenantRef, str]]:
    return [(TenantRef(id=m.tenant.id, slug=m.tenant.slug, name=m.tenant.name), m.role) for m in rows]


def actor_for(user: User, **facts: Unpack[RequestFacts]) -> Actor:
    """Returns the person as an actor with all grants; one query."""
    return person_for(user, **facts)[0]


def person_for(user: User, **facts: Unpack[RequestFacts]) -> tuple[Actor, list[TenantRef]]:
    """Returns the person as an actor with all grants, and his tenants by name; one query, or none just after
    `user_with_tenants`: what that read is used once."""
    roles, user.memberships_read = user.memberships_read, None
    if roles is None:
        with system_scope():
            roles = _roles(list(Membership.objects.filter(user=user).select_related("tenant").order_by("tenant__name")))
    actor = Actor(
        kind=ActorKind.USER,
        id=str(user.id),
        label=user.email,
        tenant_grants={tenant.id: ROLE_PERMISSIONS[role] for tenant, role in roles},
        platform_grants=OPERATOR_PERMISSIONS if user.is_operator else frozenset(),
        **facts,
    )
    return actor, [tenant for tenant, _ in roles]


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
