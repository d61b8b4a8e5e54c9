"""In which order waiting workloads are looked at; one function per policy."""

from collections.abc import Callable, Sequence

from apps.scheduling.engine.types import WorkloadView


def fcfs(workloads: Sequence[WorkloadView], *, now: float) -> list[WorkloadView]:
    """First come, first served; ties by id, which is ordered by time."""
    return sorted(workloads, key=lambda w: (w.submitted_at, w.id))


ORDERS: dict[str, Callable[..., list[WorkloadView]]] = {"fcfs": fcfs}
