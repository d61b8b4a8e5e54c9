"""Who may do what: one pure function over an actor that carries its grants."""

import dataclasses
import enum
import uuid

from apps.core.errors import Forbidden


class Permission(enum.StrEnum):
    """What can be allowed; a tenant role or a platform role is a set of these."""

    JOB_VIEW = "job.view"
    JOB_SUBMIT = "job.submit"
    JOB_MANAGE = "job.manage"  # cancel and requeue jobs of others in the tenant
    MEMBER_VIEW = "member.view"
    USAGE_VIEW = "usage.view"
    AUDIT_VIEW = "audit.view"
    NODE_VIEW = "node.view"
    NODE_MANAGE = "node.manage"
    TENANT_MANAGE = "tenant.manage"


class ActorKind(enum.StrEnum):
    """What an actor is."""

    USER = "user"
    SERVICE = "service"
    ANONYMOUS = "anonymous"


@dataclasses.dataclass(frozen=True)
class Actor:
    """A person or service together with what it was granted.

    `tenant_grants` maps a tenant's id to the permissions there; `platform_grants` hold everywhere.
    """

    kind: ActorKind
    id: str
    label: str
    tenant_grants: dict[uuid.UUID, frozenset[Permission]] = dataclasses.field(default_factory=dict)
    platform_grants: frozenset[Permission] = frozenset()
    address: str = ""
    user_agent: str = ""
    request_id: str = ""

    def is_member_of(self, tenant_id: uuid.UUID) -> bool:
        """Says whether the actor has any grant in the tenant."""
        return tenant_id in self.tenant_grants


def service_actor(name: str) -> Actor:
    """Returns the actor that stands for one of Berth's own processes."""
    return Actor(kind=ActorKind.SERVICE, id=name, label=name, platform_grants=frozenset(Permission))


def allowed(actor: Actor, permission: Permission, *, tenant_id: uuid.UUID | None = None) -> bool:
    """Decides whether the actor holds the permission, in the tenant or (without one) on the platform."""
    if permission in actor.platform_grants:
        return True
    return tenant_id is not None and permission in actor.tenant_grants.get(tenant_id, frozenset())


def require(actor: Actor, permission: Permission, *, tenant_id: uuid.UUID | None = None) -> None:
    """Raises Forbidden unless `allowed`."""
    if not allowed(actor, permission, tenant_id=tenant_id):
        raise Forbidden(f"This needs the permission {permission.value}. Ask an owner of the tenant or an operator.")
