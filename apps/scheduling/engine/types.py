"""What the scheduler sees and what it answers; all frozen, times in seconds since the epoch, durations in seconds."""

import dataclasses
from collections.abc import Mapping
from typing import Any

WHOLE = 1000
"""Share units of a whole GPU."""


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceView:
    """A GPU; `share_free` counts 1000 for a whole idle one.

    `memory_mib_free` None: all of it when the GPU is idle, else nothing that one may count on. `island` names the
    NVLink island on its node, `slices_free` the MIG profiles with free instances, (profile, count).
    """

    id: str
    model: str
    memory_mib: int
    share_free: int
    healthy: bool = True
    memory_mib_free: int | None = None
    island: int = 0
    slices_free: tuple[tuple[str, int], ...] = ()
    tenant_id: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class NodeView:
    """A node in the offer. CPU in thousandths of a core, memory in MiB; `leaf` is its leaf switch, `pool` its pool."""

    id: str
    name: str
    cpu_milli: int
    cpu_milli_free: int
    memory_mib: int
    memory_mib_free: int
    devices: tuple[DeviceView, ...]
    leaf: str = ""
    pool: str = ""
    power: str = "on"
    idle_since: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadView:
    """A waiting workload; `gpus` of `gpu_model` (empty: any) with at least `gpu_memory_mib` each, per member.

    `gpu_share` below 1000 asks for that part of each GPU (with `gpu_memory_mib` of its memory), `mig_profile` for a
    slice. `gpu_models` are further models that will do. A gang has `members` equal parts that start together or not
    at all. `topology` is any, island (one NVLink island), node (a gang on one node) or leaf (one leaf switch).
    `time_limit_s` is the promise, `estimate_s` the expectation; None: unknown. `speed` is work per second by model,
    1.0 where it is silent. `started_before` counts its runs, `preempted` how often it gave way, `waited_from` the
    start of its present wait.
    """

    id: str
    tenant_id: str
    gpus: int
    gpu_model: str
    gpu_memory_mib: int
    cpu_milli: int
    memory_mib: int
    submitted_at: float
    gpu_share: int = WHOLE
    mig_profile: str = ""
    gpu_models: tuple[str, ...] = ()
    members: int = 1
    topology: str = "any"
    project_id: str = ""
    user_id: str = ""
    name: str = ""
    queue: str = ""
    priority: int = 0
    time_limit_s: float | None = None
    estimate_s: float | None = None
    preemptible: bool = False
    checkpoint_s: float | None = None
    restore_s: float = 60.0
    speed: tuple[tuple[str, float], ...] = ()
    started_before: int = 0
    preempted: int = 0
    served_gpu_s: float = 0.0
    waited_from: float | None = None

    @property
    def gpus_total(self) -> int:
        """The GPUs of all members."""
        return self.gpus * self.members

    @property
    def models(self) -> tuple[str, ...]:
        """The GPU models that will do; empty: any."""
        return (self.gpu_model, *self.gpu_models) if self.gpu_model else self.gpu_models


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """What one member holds on one node."""

    node_id: str
    device_ids: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class RunningView:
    """A workload that runs: what it holds, since when, and what stopping it would lose."""

    workload: WorkloadView
    parts: tuple[Part, ...]
    started_at: float
    checkpointed_at: float | None = None
    slice_started_at: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class TenantView:
    """A tenant's room in GPUs; `gpus_left` None means unlimited.

    `weight` shares what is over the guarantees, `usage` is decayed GPU-seconds as of `usage_at`, `lend_limit` and
    `borrow_limit` None mean without limit.
    """

    id: str
    gpus_left: int | None
    guarantee_gpus: int = 0
    weight: float = 1.0
    lend_limit: int | None = None
    borrow_limit: int | None = None
    usage: float = 0.0
    usage_at: float = 0.0
    credit: float = 0.0
    cpu_usage: float = 0.0
    memory_usage: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class QueueView:
    """A queue: its place among queues, its room, and the policy modules that it names (empty: the cluster's)."""

    name: str
    priority: int = 0
    weight: float = 1.0
    gpus_limit: int | None = None
    guarantee_gpus: int = 0
    order: str = ""
    backfill: str = ""
    preempts: bool = False
    max_wait_s: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ReservationView:
    """Devices (or, when it names none, whole nodes) kept for a workload or tenant between two times."""

    id: str
    starts_at: float
    ends_at: float
    node_ids: tuple[str, ...]
    device_ids: tuple[str, ...] = ()
    tenant_id: str = ""
    workload_id: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class WindowView:
    """A maintenance window: nothing that may run into it starts on these nodes."""

    node_ids: tuple[str, ...]
    starts_at: float
    ends_at: float


@dataclasses.dataclass(frozen=True, slots=True)
class DemandView:
    """A kind of workload that was asked for lately, and its decayed weight; placement keeps room for its like."""

    workload: WorkloadView
    weight: float


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """All that a decision may depend on."""

    nodes: tuple[NodeView, ...]
    workloads: tuple[WorkloadView, ...]
    tenants: tuple[TenantView, ...] = ()
    running: tuple[RunningView, ...] = ()
    queues: tuple[QueueView, ...] = ()
    reservations: tuple[ReservationView, ...] = ()
    windows: tuple[WindowView, ...] = ()
    demand: tuple[DemandView, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """Which modules decide; names are looked up in the engine's tables, `parameters` override a module's numbers."""

    order: str = "fcfs"
    placement: str = "fragmentation"
    backfill: str = "none"
    preemption: str = "none"
    fairshare: str = "none"
    autoscale: str = "none"
    parameters: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def number(self, name: str, default: float) -> float:
        """Returns a parameter or its default."""
        return float(self.parameters.get(name, default))


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """Why a workload waits: a code and its numbers."""

    code: str
    numbers: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """A workload to start now on these devices of this node, and why there; `more` are a gang's other members."""

    workload_id: str
    node_id: str
    device_ids: tuple[str, ...]
    why: str
    numbers: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    more: tuple[Part, ...] = ()
    held_until: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Preemption:
    """A running workload to stop for another, and why this one: GPU-seconds lost and the other numbers."""

    workload_id: str
    for_workload_id: str
    why: str
    numbers: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class PowerDecision:
    """A node to power on or off, and why."""

    node_id: str
    on: bool
    reason: Reason


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """A proposal of defragmentation: moving this workload there would free room for what waits."""

    workload_id: str
    to: Part
    reason: Reason


@dataclasses.dataclass(frozen=True, slots=True)
class Forecast:
    """A waiting workload's place in line and its expected start as an interval; None: nobody can say."""

    position: int
    starts_after: float | None = None
    starts_before: float | None = None
    next_step: Reason | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What to do now; every waiting workload of the snapshot is either decided or has its one reason."""

    decisions: tuple[Decision, ...]
    reasons: Mapping[str, Reason]
    preemptions: tuple[Preemption, ...] = ()
    power: tuple[PowerDecision, ...] = ()
    moves: tuple[Move, ...] = ()
    forecasts: Mapping[str, Forecast] = dataclasses.field(default_factory=dict)
