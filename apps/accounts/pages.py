"""What every page needs of its visitor: who he is, in which tenant he works, and how errors look."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render

from apps.accounts.models import User
from apps.accounts.requests import TENANT_SESSION_KEY, actor_of
from apps.accounts.requests import tenant_choose as keep_choice
from apps.accounts.selectors import tenants_of
from apps.core.access import Actor, Permission, allowed
from apps.core.errors import BerthError, Forbidden, NotFound
from apps.tenants.types import TenantRef

P = ParamSpec("P")


@dataclasses.dataclass(frozen=True)
class Visitor:
    """A signed-in person with his grants, the tenants he belongs to and the one he works in (None: none)."""

    user: User
    actor: Actor
    tenants: tuple[TenantRef, ...]
    tenant: TenantRef | None

    @property
    def is_operator(self) -> bool:
        """Whether pages for operators are offered."""
        return allowed(self.actor, Permission.NODE_VIEW)

    def may(self, permission: Permission) -> bool:
        """Says whether he holds the permission in his present tenant or on the platform."""
        return allowed(self.actor, permission, tenant_id=self.tenant.id if self.tenant else None)


@dataclasses.dataclass(frozen=True)
class Member(Visitor):
    """A visitor who works in a tenant."""

    tenant: TenantRef


View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def visitor_of(request: HttpRequest) -> Visitor | None:
    """Returns the visitor of a request, read once; None when nobody is signed in."""
    found: Visitor | None = getattr(request, "berth_visitor", None)
    if found is None:
        found = _read(request)
        request.berth_visitor = found  # type: ignore[attr-defined]
    return found


def _read(request: HttpRequest) -> Visitor | None:
    if not isinstance(request.user, User):
        return None
    actor = actor_of(request)
    tenants = tuple(tenants_of(actor))
    chosen = request.session.get(TENANT_SESSION_KEY, "")
    tenant = next((t for t in tenants if t.slug == chosen), tenants[0] if tenants else None)
    return Visitor(user=request.user, actor=actor, tenants=tenants, tenant=tenant)


def tenant_choose(request: HttpRequest, slug: str) -> None:
    """Makes one of the visitor's tenants the one he works in; raises NotFound for a foreign one."""
    keep_choice(request, actor_of(request), slug)
    request.berth_visitor = None  # type: ignore[attr-defined]


def page(view: Callable[Concatenate[HttpRequest, Visitor, P], HttpResponseBase]) -> View[P]:
    """Gives a view its visitor; sends others to sign in; turns Berth's errors into pages."""

    @functools.wraps(view)
    def inner(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        visitor = visitor_of(request)
        if visitor is None:
            return _to_sign_in(request)
        try:
            return view(request, visitor, *args, **kwargs)
        except NotFound as error:
            raise Http404(error.detail) from error
        except BerthError as error:
            return error_page(request, error)

    return inner


def tenant_page(view: Callable[Concatenate[HttpRequest, Member, P], HttpResponseBase]) -> View[P]:
    """As `page`, for pages inside a tenant; who belongs to none is told so."""

    @page
    @functools.wraps(view)
    def inner(request: HttpRequest, visitor: Visitor, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if visitor.tenant is None:
            return render(request, "console/no_tenant.html", status=200)
        fields: dict[str, Any] = {f.name: getattr(visitor, f.name) for f in dataclasses.fields(visitor)}
        return view(request, Member(**fields), *args, **kwargs)

    return inner


def operator_page(view: Callable[Concatenate[HttpRequest, Visitor, P], HttpResponseBase]) -> View[P]:
    """As `page`, for operators; for others the page does not exist."""

    @page
    @functools.wraps(view)
    def inner(request: HttpRequest, visitor: Visitor, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        try:
            return view(request, visitor, *args, **kwargs)
        except Forbidden as error:
            raise Http404 from error

    return inner


def told(request: HttpRequest, act: Callable[[], object], done: str) -> bool:
    """Carries out an act and tells the visitor on his next page that it is done, or why not."""
    try:
        act()
    except NotFound:
        raise
    except BerthError as error:
        messages.error(request, error.detail)
        return False
    messages.success(request, done)
    return True


def error_page(request: HttpRequest, error: BerthError) -> HttpResponse:
    """Shows an error that is told as it is."""
    return render(request, "error.html", {"error": error}, status=error.status)


def _to_sign_in(request: HttpRequest) -> HttpResponseBase:
    to_sign_in = redirect_to_login(request.get_full_path())
    if request.headers.get("HX-Request"):  # a redirect would be swapped into the middle of the page
        return HttpResponse(status=401, headers={"HX-Redirect": to_sign_in["Location"]})
    return to_sign_in
