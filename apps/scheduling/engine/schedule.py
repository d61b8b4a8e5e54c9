"""The engine's one public function."""

from apps.scheduling.engine.feasibility import busy_reason, fits_now, never_fits, suitable_devices, suits_empty
from apps.scheduling.engine.ordering import ORDERS
from apps.scheduling.engine.placement import PLACEMENTS
from apps.scheduling.engine.state import Room
from apps.scheduling.engine.types import ClusterSnapshot, Decision, NodeView, Plan, Policy, Reason, WorkloadView


def schedule(snapshot: ClusterSnapshot, *, now: float, policy: Policy, seed: int) -> Plan:
    """Decides what starts now and says of everything else why it waits.

    A workload that must wait keeps later ones off the GPUs it could use (no backfill yet); one that could never
    run, or whose tenant's quota is used up, holds up nobody. `seed` is for policies that draw lots; these do not.
    """
    room = Room(snapshot)
    choose = PLACEMENTS[policy.placement]
    decisions: list[Decision] = []
    reasons: dict[str, Reason] = {}
    waiting = _Waiting()
    for workload in ORDERS[policy.order](snapshot.workloads, now=now):
        reason = never_fits(snapshot.nodes, workload) or _over_quota(room, workload)
        if reason is None:
            nodes = [n for n in snapshot.nodes if fits_now(room, n, workload) and not waiting.claims(n, workload)]
            if nodes:
                node = choose(room, nodes, workload)
                devices = tuple(room.matching(node, workload)[: workload.gpus])
                left = len(room.free_devices[node.id]) - workload.gpus
                room.take(node, workload, devices)
                decisions.append(
                    Decision(workload.id, node.id, devices, f"{policy.placement}: leaves {left} free GPUs")
                )
                continue
            reason = waiting.reason(room, workload)
            waiting.add(snapshot, workload)
        reasons[workload.id] = reason
    return Plan(decisions=tuple(decisions), reasons=reasons)


def _over_quota(room: Room, workload: WorkloadView) -> Reason | None:
    left = room.gpus_left.get(workload.tenant_id)
    if left is None or workload.gpus <= left:
        return None
    return Reason("tenant_gpu_quota", {"gpus_asked": workload.gpus, "gpus_left": max(0, left)})


class _Waiting:
    """The GPUs (or, for work without GPUs, the nodes) that earlier workloads wait for."""

    def __init__(self) -> None:
        self._claimed: set[str] = set()
        self._count = 0

    def add(self, snapshot: ClusterSnapshot, workload: WorkloadView) -> None:
        self._count += 1
        for node in snapshot.nodes:
            if suits_empty(node, workload):
                self._claimed.update(suitable_devices(node, workload) if workload.gpus else [node.id])

    def claims(self, node: NodeView, workload: WorkloadView) -> bool:
        if not workload.gpus:
            return node.id in self._claimed
        return any(device in self._claimed for device in suitable_devices(node, workload))

    def reason(self, room: Room, workload: WorkloadView) -> Reason:
        if any(fits_now(room, node, workload) for node in room.nodes):
            return Reason("behind_others", {"ahead": self._count})
        busy = busy_reason(room, workload)
        return Reason(busy.code, {**busy.numbers, "ahead": self._count})
