"""System checks of sign-in."""

from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Tags, register


@register(Tags.security)
def refresh_tokens_can_end(app_configs: object, **kwargs: Any) -> list[CheckMessage]:
    """Fails without the blacklist: a refresh token could then be used again and again, also by a thief."""
    if apps.is_installed("rest_framework_simplejwt.token_blacklist"):
        return []
    hint = "Add rest_framework_simplejwt.token_blacklist to INSTALLED_APPS."
    return [Error("Refresh tokens can't be revoked.", hint=hint, id="berth.E010")]
