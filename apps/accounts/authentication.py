"""How the REST API knows who asks."""

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.request import Request

from apps.accounts.models import User
from apps.accounts.tokens import Access, TokenRefused, access_user, access_verify


class Bearer(BaseAuthentication):
    """`Authorization: Bearer <access token>`."""

    def authenticate(self, request: Request) -> tuple[User, Access] | None:
        """Returns the person and the token; None without the header; raises TokenRefused."""
        parts = get_authorization_header(request).split()
        if not parts or parts[0].lower() != b"bearer":
            return None
        if len(parts) != 2:
            raise TokenRefused("Send Authorization: Bearer followed by one access token.")
        token = access_verify(parts[1].decode("latin-1"))
        user = access_user(token)
        if user is None:
            raise TokenRefused("The token's owner can't sign in any more, or has a new password.")
        return user, token

    def authenticate_header(self, request: Request) -> str:
        """Returns the challenge of a 401."""
        return 'Bearer realm="berth"'


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Says it in the OpenAPI schema."""

    target_class = "apps.accounts.authentication.Bearer"
    name = "bearer"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        """Returns the security scheme."""
        return {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
