"""The app of decisions."""

from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    """Snapshots, plans and their application."""

    name = "apps.scheduling"
    label = "scheduling"
