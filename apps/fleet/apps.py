"""The app of nodes and GPUs."""

from django.apps import AppConfig


class FleetConfig(AppConfig):
    """Nodes, GPU devices, links, node operations."""

    name = "apps.fleet"
    label = "fleet"
