"""The app of jobs."""

from django.apps import AppConfig


class WorkloadsConfig(AppConfig):
    """Jobs, attempts, allocations, logs."""

    name = "apps.workloads"
    label = "workloads"
