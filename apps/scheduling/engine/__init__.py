"""The scheduler as a pure function: a snapshot in, a plan out; no clock, no I/O, randomness only from the seed."""

from apps.scheduling.engine.schedule import schedule
from apps.scheduling.engine.types import (
    ClusterSnapshot,
    Decision,
    DeviceView,
    NodeView,
    Plan,
    Policy,
    Reason,
    TenantView,
    WorkloadView,
)

__all__ = [
    "ClusterSnapshot",
    "Decision",
    "DeviceView",
    "NodeView",
    "Plan",
    "Policy",
    "Reason",
    "TenantView",
    "WorkloadView",
    "schedule",
]
