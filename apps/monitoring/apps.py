"""The app of readings."""

from django.apps import AppConfig


class MonitoringConfig(AppConfig):
    """Samples of GPUs."""

    name = "apps.monitoring"
    label = "monitoring"
