"""Proving who one is by email and password, for the page and the API alike.

Ten failures for one email address from one network address lock that pair out for a quarter of an hour (axes).
Every attempt is on the audit log.
"""

from typing import ClassVar

from django.contrib.auth import authenticate
from django.http import HttpRequest

from apps.accounts.models import User
from apps.accounts.requests import actor_of, request_facts
from apps.accounts.selectors import actor_for
from apps.accounts.services import signin_record
from apps.core import clock
from apps.core.errors import BerthError


class SignInRefused(BerthError):
    """Email and password do not belong together."""

    code: ClassVar[str] = "sign_in_refused"
    status: ClassVar[int] = 401
    title: ClassVar[str] = "Sign-in failed"


class LockedOut(BerthError):
    """Too many failures."""

    code: ClassVar[str] = "locked_out"
    status: ClassVar[int] = 429
    title: ClassVar[str] = "Too many failed sign-ins"


def sign_in(request: HttpRequest, *, email: str, password: str) -> User:
    """Returns the person; raises SignInRefused or LockedOut. Starts no session and issues no token."""
    name = email.strip().lower()
    found = authenticate(request=request, username=name, password=password)
    locked = bool(getattr(request, "axes_locked_out", False))
    if not isinstance(found, User):
        outcome = "locked_out" if locked else "refused"
        signin_record(user=None, email=name, actor=actor_of(request), outcome=outcome, now=clock.utc_now())
        if locked:
            raise LockedOut("Too many failed sign-ins for this address. Try again in 15 minutes.")
        raise SignInRefused("Email and password do not match an active account.")
    actor = actor_for(found, **request_facts(request))
    signin_record(user=found, email=name, actor=actor, outcome="ok", now=clock.utc_now())
    return found
