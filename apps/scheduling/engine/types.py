"""What the scheduler sees and what it answers; all frozen, times in seconds since the epoch."""

import dataclasses
from collections.abc import Mapping
from typing import Any

WHOLE = 1000
"""Share units of a whole GPU."""


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceView:
    """A GPU; `share_free` counts 1000 for a whole idle one."""

    id: str
    model: str
    memory_mib: int
    share_free: int
    healthy: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class NodeView:
    """A node in the offer. CPU in thousandths of a core, memory in MiB."""

    id: str
    name: str
    cpu_milli: int
    cpu_milli_free: int
    memory_mib: int
    memory_mib_free: int
    devices: tuple[DeviceView, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadView:
    """A waiting workload; `gpus` whole ones of `gpu_model` (empty: any) with at least `gpu_memory_mib` each."""

    id: str
    tenant_id: str
    gpus: int
    gpu_model: str
    gpu_memory_mib: int
    cpu_milli: int
    memory_mib: int
    submitted_at: float


@dataclasses.dataclass(frozen=True, slots=True)
class TenantView:
    """A tenant's room; `gpus_left` None means unlimited."""

    id: str
    gpus_left: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """All that a decision may depend on."""

    nodes: tuple[NodeView, ...]
    workloads: tuple[WorkloadView, ...]
    tenants: tuple[TenantView, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """Which modules decide; names are looked up in the engine's tables."""

    order: str = "fcfs"
    placement: str = "best_fit"


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """Why a workload waits: a code and its numbers."""

    code: str
    numbers: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """A workload to start now on these devices of this node, and why there."""

    workload_id: str
    node_id: str
    device_ids: tuple[str, ...]
    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What to do now; every waiting workload of the snapshot is either decided or has its one reason."""

    decisions: tuple[Decision, ...]
    reasons: Mapping[str, Reason]
