"""The app of shared rows and checks."""

from django.apps import AppConfig


class CoreConfig(AppConfig):
    """Registers Berth's system checks."""

    name = "apps.core"
    label = "core"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Loads the checks."""
        from apps.core import checks  # noqa: F401
