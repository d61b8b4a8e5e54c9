"""Who opens a live socket: a browser with its session, or a program with an access token."""

import dataclasses
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest, parse_cookie
from django.http.request import split_domain_port, validate_host

from apps.accounts.models import User
from apps.accounts.selectors import actor_for
from apps.accounts.tokens import TokenRefused, access_user, access_verify
from apps.core.access import Actor

PROTOCOL = "berth.v1"
BEARER_PROTOCOL = "berth.bearer."

Scope = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Credentials:
    """What the client showed: a token or the key of a session. Looked at again as long as the socket is open."""

    access: str = dataclasses.field(default="", repr=False)
    session_key: str = dataclasses.field(default="", repr=False)
    address: str = ""


@dataclasses.dataclass(frozen=True)
class Identity:
    """Whom the credentials stand for now; `expires_at` is a Unix time."""

    actor: Actor
    expires_at: float


def credentials_of(scope: Scope) -> Credentials:
    """Reads header, subprotocol and cookie; a token wins over a session."""
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope.get("headers", [])}
    address = str((scope.get("client") or ("",))[0])
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return Credentials(access=token.strip(), address=address)
    for offered in scope.get("subprotocols", []):
        if offered.startswith(BEARER_PROTOCOL):
            return Credentials(access=offered.removeprefix(BEARER_PROTOCOL), address=address)
    cookies = parse_cookie(headers.get("cookie", ""))
    return Credentials(session_key=cookies.get(settings.SESSION_COOKIE_NAME, ""), address=address)


def subprotocol_of(scope: Scope) -> str | None:
    """Returns the protocol to agree on: ours, else the one that carries the token (a browser insists on one)."""
    offered: list[str] = list(scope.get("subprotocols", []))
    if PROTOCOL in offered:
        return PROTOCOL
    return next((name for name in offered if name.startswith(BEARER_PROTOCOL)), None)


def origin_fits(scope: Scope, credentials: Credentials) -> bool:
    """Says whether the page that opens the socket is ours; a program has no Origin, but then it must have a token."""
    headers = dict(scope.get("headers", []))
    origin = headers.get(b"origin", b"").decode("latin-1")
    if not origin:
        return bool(credentials.access)
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    host = headers.get(b"host", b"").decode("latin-1").lower()
    domain, _ = split_domain_port(host)
    return urlsplit(origin).netloc.lower() == host and validate_host(domain, settings.ALLOWED_HOSTS)


def identify(credentials: Credentials) -> Identity | None:
    """Returns whom the credentials stand for at this moment; None when for nobody. Sync code."""
    return _by_token(credentials) if credentials.access else _by_session(credentials)


def _by_token(credentials: Credentials) -> Identity | None:
    try:
        token = access_verify(credentials.access)
    except TokenRefused:
        return None
    user = access_user(token)
    if user is None:
        return None
    return Identity(actor=actor_for(user, address=credentials.address), expires_at=float(token["exp"]))


def _by_session(credentials: Credentials) -> Identity | None:
    if not credentials.session_key:
        return None
    request = HttpRequest()
    request.session = SessionStore(credentials.session_key)
    user = get_user(request)
    if not isinstance(user, User):
        return None
    expires_at = request.session.get_expiry_date().timestamp()
    return Identity(actor=actor_for(user, address=credentials.address), expires_at=expires_at)
