"""The app of messages to people."""

from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    """Rows first, then email."""

    name = "apps.notifications"
    label = "notifications"
