"""The one place that turns a request, of a page or of the API, into an actor and a tenant."""

import re
import uuid
from typing import ClassVar

from django.http import HttpRequest
from rest_framework.request import Request

from apps.accounts.selectors import ANONYMOUS, RequestFacts, person_for, tenants_of
from apps.core.access import Actor
from apps.core.errors import BerthError, NotFound
from apps.tenants.selectors import tenant_by_slug
from apps.tenants.types import TenantRef

TENANT_HEADER = "Berth-Tenant"
TENANT_SESSION_KEY = "berth_tenant"
REQUEST_ID_HEADER = "X-Request-ID"
_REQUEST_ID = re.compile(r"^[A-Za-z0-9._-]{1,64}$")


class TenantRequired(BerthError):
    """The person belongs to several tenants and named none."""

    code: ClassVar[str] = "tenant_required"
    status: ClassVar[int] = 400
    title: ClassVar[str] = "Name a tenant"


def request_facts(request: HttpRequest) -> RequestFacts:
    """Returns where a request comes from; the address is the one that the server believes (uvicorn's proxy rules)."""
    return RequestFacts(
        address=str(request.META.get("REMOTE_ADDR") or "")[:64],
        user_agent=request.headers.get("User-Agent", "")[:255],
        request_id=request_id(request),
    )


def request_id(request: HttpRequest) -> str:
    """Returns the request's id: the caller's X-Request-ID when it is sane, else a new one."""
    known: str | None = getattr(request, "berth_request_id", None)
    if known is None:
        given = request.headers.get(REQUEST_ID_HEADER, "")
        known = given if _REQUEST_ID.match(given) else uuid.uuid4().hex
        request.berth_request_id = known  # type: ignore[attr-defined]
    return known


def actor_of(request: HttpRequest | Request) -> Actor:
    """Returns who asks, with grants, address, user agent and request id; one query per request."""
    base = _base(request)
    user = request.user
    if not user.is_authenticated:
        facts = request_facts(base)
        return Actor(kind=ANONYMOUS.kind, id=ANONYMOUS.id, label=ANONYMOUS.label, **facts)
    known: Actor | None = getattr(base, "berth_actor", None)
    if known is None or known.id != str(user.pk):
        known, base.berth_tenants = person_for(user, **request_facts(base))  # type: ignore[attr-defined]
        base.berth_actor = known  # type: ignore[attr-defined]
    return known


def tenant_of(request: HttpRequest | Request, actor: Actor) -> TenantRef:
    """Returns the tenant that the request is about.

    The Berth-Tenant header wins; then the session's choice; then the only membership. Raises NotFound for a tenant
    that does not exist or that the actor does not belong to, TenantRequired when several are possible.
    """
    base = _base(request)
    named = base.headers.get(TENANT_HEADER)
    if named is not None:
        return _member_tenant(actor, named)
    session = getattr(base, "session", None)
    chosen = session.get(TENANT_SESSION_KEY) if session is not None else None
    known: list[TenantRef] | None = getattr(base, "berth_tenants", None)
    mine = tenants_of(actor) if known is None else known
    for tenant in mine:
        if tenant.slug == chosen or len(mine) == 1:
            return tenant
    if not mine:
        raise NotFound("You belong to no tenant. Ask an owner to add you.")
    slugs = ", ".join(tenant.slug for tenant in mine)
    raise TenantRequired(f"Send {TENANT_HEADER} with one of: {slugs}.", errors={TENANT_HEADER: slugs})


def tenant_choose(request: HttpRequest, actor: Actor, slug: str) -> TenantRef:
    """Keeps the tenant that a person chose in the page's session; raises NotFound."""
    tenant = _member_tenant(actor, slug)
    request.session[TENANT_SESSION_KEY] = tenant.slug
    return tenant


def _member_tenant(actor: Actor, slug: str) -> TenantRef:
    tenant = tenant_by_slug(slug) if len(slug) <= 48 else None
    if tenant is None or not actor.is_member_of(tenant.id):
        raise NotFound("There is no such tenant.")
    return tenant


def _base(request: HttpRequest | Request) -> HttpRequest:
    return request._request if isinstance(request, Request) else request
