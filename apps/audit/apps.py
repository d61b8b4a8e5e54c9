"""The app of the audit log."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    """Append-only record of every act."""

    name = "apps.audit"
    label = "audit"
