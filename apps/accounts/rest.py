"""The base of every REST view: who asks, for which tenant."""

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.accounts.requests import actor_of, tenant_of
from apps.core.access import Actor, Permission, allowed
from apps.core.errors import NotFound
from apps.tenants.types import TenantRef


class ApiView(APIView):
    """A view that parses, makes one call and answers."""

    request: Request

    @property
    def actor(self) -> Actor:
        """Who asks."""
        return actor_of(self.request)


class TenantView(ApiView):
    """A view about one tenant's things."""

    @property
    def tenant(self) -> TenantRef:
        """The tenant that the request is about; raises NotFound and TenantRequired."""
        base: HttpRequest = self.request._request
        known: TenantRef | None = getattr(base, "berth_tenant", None)
        if known is None:
            known = tenant_of(self.request, self.actor)
            base.berth_tenant = known  # type: ignore[attr-defined]
        return known


class OperatorView(ApiView):
    """A view about the platform; for everybody but operators it does not exist."""

    permission: Permission = Permission.NODE_VIEW

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        """Raises NotFound for whoever may not even look."""
        super().initial(request, *args, **kwargs)
        if not allowed(self.actor, self.permission):
            raise NotFound("Not found.")
