"""JWT for people: Ed25519 signatures with a key id, short access tokens, rotating refresh tokens.

A family is everything that grew from one sign-in. A refresh token that comes a second time was copied: the family
ends. The signing key is derived from the installation's master key, so all web processes share it without a store.
"""

import dataclasses
import datetime as dt
import functools
import hashlib
import uuid
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.db import transaction
from rest_framework_simplejwt.backends import TokenBackend
from rest_framework_simplejwt.exceptions import TokenError
from rest_framework_simplejwt.token_blacklist.models import BlacklistedToken, OutstandingToken
from rest_framework_simplejwt.tokens import AccessToken, RefreshToken, Token

from apps.accounts.models import User
from apps.accounts.selectors import user_with_tenants
from apps.core.errors import BerthError

KEY_INFO = b"berth jwt signing key 1"
ISSUER = "berth"
FAMILY = "family"
TWIN_LEEWAY = dt.timedelta(seconds=20)
"""Two commands of one person that refresh at the same moment are no theft."""


class TokenRefused(BerthError):
    """The token is not, or no longer, good for anything."""

    code = "token_not_valid"
    status = 401
    title = "Sign in again"


class KeyIdBackend(TokenBackend):
    """Names the key in the token's header and accepts only tokens that name it."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        super().__init__("EdDSA", private.decode(), public.decode(), issuer=ISSUER)
        self.key_id = hashlib.sha256(public).hexdigest()[:16]

    def encode(self, payload: dict[str, Any]) -> str:
        """Returns the signed token."""
        return jwt.encode(
            {**payload, "iss": self.issuer}, self.prepared_signing_key, algorithm=self.algorithm,
            headers={"kid": self.key_id},
        )  # fmt: skip


@functools.cache
def backend() -> KeyIdBackend:
    """Returns this installation's signer."""
    seed = HKDF(SHA256(), 32, salt=None, info=KEY_INFO).derive(settings.BERTH_MASTER_KEY)
    return KeyIdBackend(Ed25519PrivateKey.from_private_bytes(seed))


class Access(AccessToken):
    """A short-lived token that opens the API."""

    @property
    def token_backend(self) -> TokenBackend:
        """The signer."""
        return backend()


class Refresh(RefreshToken):
    """A token that is good for one new pair."""

    access_token_class = Access

    @property
    def token_backend(self) -> TokenBackend:
        """The signer."""
        return backend()


@dataclasses.dataclass(frozen=True)
class TokenPair:
    """What a sign-in or refresh yields; `expires_in` is the access token's life in seconds."""

    access: str
    refresh: str
    expires_in: int


def tokens_issue(user: User) -> TokenPair:
    """Begins a family for a person who has just proved who he is."""
    return _pair(user, uuid.uuid4().hex)


def tokens_refresh(text: str) -> TokenPair:
    """Trades a refresh token for a new pair; raises TokenRefused, and ends the family of one that was used before."""
    with transaction.atomic():
        token, row = _claimed(text)
        used = BlacklistedToken.objects.filter(token=row).first()
        if used is None:
            user = User.objects.filter(pk=token["user_id"], is_active=True).first()
            if user is None or not _same_password(user, token):
                raise TokenRefused("The token's owner can't sign in any more, or has a new password.")
            BlacklistedToken.objects.create(token=row)
            return _pair(user, token[FAMILY])
        stolen = dt.datetime.now(dt.UTC) - used.blacklisted_at > TWIN_LEEWAY
        if stolen:
            _end_family(row.user_id, token[FAMILY])
    if stolen:
        raise TokenRefused("This refresh token was used before, so all tokens of its sign-in have ended.")
    raise TokenRefused("Another command has just used this refresh token. Read the stored one again.")


def tokens_revoke(text: str) -> None:
    """Ends the family of a refresh token; one that is not good any more is no error."""
    try:
        with transaction.atomic():
            token, row = _claimed(text)
            _end_family(row.user_id, token[FAMILY])
    except TokenRefused:
        return


def _pair(user: User, family: str) -> TokenPair:
    refresh = Refresh()
    refresh["user_id"] = str(user.pk)
    refresh[FAMILY] = family
    refresh["pwd"] = _password_mark(user)
    refresh.outstand()
    access = refresh.access_token
    return TokenPair(
        access=str(access), refresh=str(refresh), expires_in=int(refresh.access_token.lifetime.total_seconds())
    )


def _password_mark(user: User) -> str:
    """A new password ends all tokens; the mark gives nothing away (a hash of a salted hash)."""
    return hashlib.sha256(user.password.encode()).hexdigest()[:16]


def _same_password(user: User, token: Token) -> bool:
    return bool(token.get("pwd") == _password_mark(user))


def access_user(token: Token) -> User | None:
    """Returns the active person whom a verified access token stands for, or None."""
    try:
        user = user_with_tenants(uuid.UUID(str(token.get("user_id"))))
    except ValueError:
        return None
    return user if user is not None and _same_password(user, token) else None


def access_verify(text: str) -> Access:
    """Returns a checked access token; raises TokenRefused."""
    try:
        return Access(text)  # type: ignore[arg-type]
    except TokenError as error:
        raise TokenRefused(str(error)) from error


class _Unchecked(Refresh):
    """A refresh token whose place in the blacklist is looked at by the caller, under a lock."""

    def check_blacklist(self) -> None:
        """Leaves the check to `tokens_refresh`."""


def _claimed(text: str) -> tuple[Refresh, OutstandingToken]:
    """Locks the token's row so that of two users of one token only one can win."""
    try:
        token = _Unchecked(text)  # type: ignore[arg-type]
    except TokenError as error:
        raise TokenRefused(str(error)) from error
    row = OutstandingToken.objects.select_for_update().filter(jti=token["jti"]).first()
    if row is None or FAMILY not in token:
        raise TokenRefused("The token is not known here.")
    return token, row


def _end_family(user_id: uuid.UUID | None, family: str) -> None:
    if user_id is None:  # the person is gone, and so is every use of his tokens
        return
    rows = OutstandingToken.objects.filter(
        user_id=user_id, blacklistedtoken=None, expires_at__gt=dt.datetime.now(dt.UTC)
    )
    kin = [row for row in rows if _family_of(row.token) == family]
    BlacklistedToken.objects.bulk_create([BlacklistedToken(token=row) for row in kin], ignore_conflicts=True)


def _family_of(text: str) -> str:
    return str(jwt.decode(text, options={"verify_signature": False}).get(FAMILY, ""))
