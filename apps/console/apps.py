"""The app of pages that belong to no single noun."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """Home, sign-in, navigation."""

    name = "apps.console"
    label = "console"
