"""The app of people and their memberships."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Users, memberships, sign-in."""

    name = "apps.accounts"
    label = "accounts"

    def ready(self) -> None:
        """Loads the checks."""
        from apps.accounts import checks  # noqa: F401
