"""REST: signing in and out, who I am, the tenant's quota."""

from typing import Any, cast

from django.contrib.auth.signals import user_logged_in
from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import User
from apps.accounts.rest import ApiView, TenantView
from apps.accounts.selectors import memberships_of
from apps.accounts.signin import sign_in
from apps.accounts.tokens import TokenPair, tokens_issue, tokens_refresh, tokens_revoke
from apps.core.rest.openapi import TENANT
from apps.core.rest.serializers import Strict, body_of, results_of
from apps.core.rest.throttles import PerScope
from apps.tenants.choices import Resource, Role
from apps.tenants.selectors import quota_list


class SignIn(Strict):
    """Email and password."""

    email = serializers.EmailField(max_length=254)
    password = serializers.CharField(max_length=1024, trim_whitespace=False, write_only=True)


class RefreshIn(Strict):
    """A refresh token."""

    refresh = serializers.CharField(max_length=4096)


class TokensOut(serializers.Serializer[TokenPair]):
    """Two tokens; each refresh token is good for one new pair."""

    access = serializers.CharField(help_text="Send as `Authorization: Bearer …`.")
    refresh = serializers.CharField(help_text="Trade for a new pair at /auth/refresh; keep it secret.")
    expires_in = serializers.IntegerField(help_text="Seconds for which `access` is good.")


class MyTenantOut(serializers.Serializer[Any]):
    """A tenant that I belong to."""

    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.choices)


class MeOut(serializers.Serializer[Any]):
    """The person who asks."""

    id = serializers.UUIDField()
    email = serializers.EmailField()
    name = serializers.CharField()
    is_operator = serializers.BooleanField()
    language = serializers.CharField()
    tenants = MyTenantOut(many=True)


class QuotaOut(serializers.Serializer[Any]):
    """One counter; without a ceiling it is unlimited."""

    resource = serializers.ChoiceField(choices=Resource.choices)
    used = serializers.IntegerField()
    ceiling = serializers.IntegerField(allow_null=True)


class AuthView(ApiView):
    """Open to everybody, with a limit of its own."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    throttle_classes = (PerScope,)
    throttle_scope = "auth"


class TokenView(AuthView):
    """Sign in."""

    @extend_schema(
        operation_id="auth_token",
        summary="Sign in",
        description="Trades email and password for tokens. Ten failures for one email address from one network address"
        " lock that pair out for 15 minutes (429).",
        request=SignIn,
        responses=TokensOut,
        tags=["auth"],
        examples=[
            OpenApiExample(
                "Sign in", request_only=True, value={"email": "alice@example.org", "password": "correct horse battery"}
            )
        ],
    )
    def post(self, request: Request) -> Response:
        """Issues tokens."""
        given = body_of(request, SignIn)
        user = sign_in(request._request, **given)
        user_logged_in.send(sender=User, request=request._request, user=user)
        return Response(TokensOut(tokens_issue(user)).data)


class RefreshView(AuthView):
    """Go on being signed in."""

    @extend_schema(
        operation_id="auth_refresh",
        summary="Trade a refresh token for new tokens",
        description="Each refresh token works once. One that comes again later than 20 seconds ends all tokens of its"
        " sign-in, because it was copied.",
        request=RefreshIn,
        responses=TokensOut,
        tags=["auth"],
    )
    def post(self, request: Request) -> Response:
        """Rotates."""
        pair = tokens_refresh(body_of(request, RefreshIn)["refresh"])
        return Response(TokensOut(pair).data)


class LogoutView(AuthView):
    """Sign out."""

    @extend_schema(
        operation_id="auth_logout",
        summary="Sign out",
        description="Ends all refresh tokens of this sign-in. An access token ends by itself within ten minutes.",
        request=RefreshIn,
        responses={204: None},
        tags=["auth"],
    )
    def post(self, request: Request) -> Response:
        """Revokes."""
        tokens_revoke(body_of(request, RefreshIn)["refresh"])
        return Response(status=204)


class MeView(ApiView):
    """The person who asks."""

    @extend_schema(operation_id="me", summary="Who am I?", responses=MeOut, tags=["auth"])
    def get(self, request: Request) -> Response:
        """Shows the person and the tenants they belong to."""
        user = cast("User", request.user)  # nobody else comes past the permission
        tenants = [
            {"id": tenant.id, "slug": tenant.slug, "name": tenant.name, "role": role}
            for tenant, role in memberships_of(user)
        ]
        names = ("id", "email", "name", "is_operator", "language")
        return Response(MeOut({name: getattr(user, name) for name in names} | {"tenants": tenants}).data)


class QuotaView(TenantView):
    """The tenant's counters."""

    @extend_schema(
        operation_id="quota_list",
        summary="Quota of the tenant",
        responses=results_of(QuotaOut),
        parameters=[TENANT],
        tags=["tenant"],
    )
    def get(self, request: Request) -> Response:
        """Lists the counters."""
        return Response({"results": QuotaOut(quota_list(tenant=self.tenant), many=True).data})


api_urlpatterns = [
    path("auth/token", TokenView.as_view(), name="auth-token"),
    path("auth/refresh", RefreshView.as_view(), name="auth-refresh"),
    path("auth/logout", LogoutView.as_view(), name="auth-logout"),
    path("me", MeView.as_view(), name="me"),
    path("quota", QuotaView.as_view(), name="quota"),
]
