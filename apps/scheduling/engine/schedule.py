"""The engine's one public function."""

from collections.abc import Mapping

from apps.scheduling.engine.arrays import Arrays, Kind, Spot
from apps.scheduling.engine.feasibility import Refusals
from apps.scheduling.engine.ordering import ORDERS
from apps.scheduling.engine.placement import PLACEMENTS, Placement
from apps.scheduling.engine.types import WHOLE, ClusterSnapshot, Decision, Part, Plan, Policy, Reason, WorkloadView


def schedule(snapshot: ClusterSnapshot, *, now: float, policy: Policy, seed: int) -> Plan:
    """Decides what starts now and says of everything else why it waits.

    A workload that must wait keeps later ones off the GPUs it could use (no backfill yet); one that could never
    run, or whose tenant's quota is used up, holds up nobody. `seed` is for policies that draw lots.
    """
    arrays = Arrays(snapshot.nodes)
    kinds = {w.id: Kind.of(w) for w in snapshot.workloads}
    placement = PLACEMENTS[policy.placement](arrays, _demand(snapshot, kinds), seed)
    refusals = Refusals(arrays)
    left = {t.id: t.gpus_left for t in snapshot.tenants}
    decisions: list[Decision] = []
    reasons: dict[str, Reason] = {}
    ahead = 0
    for workload in ORDERS[policy.order](snapshot.workloads, now=now):
        kind = kinds[workload.id]
        reason = refusals.never_fits(kind) or _over_quota(left, workload)
        if reason is None:
            spots = place_members(placement, arrays, kind, workload.members)
            if spots:
                decisions.append(_decision(arrays, workload, spots, policy.placement))
                room = left.get(workload.tenant_id)
                left[workload.tenant_id] = None if room is None else room - workload.gpus_total
                continue
            reason = refusals.waits(kind, ahead)
            arrays.claim(kind)
            ahead += 1
        reasons[workload.id] = reason
    return Plan(decisions=tuple(decisions), reasons=reasons)


def place_members(placement: Placement, arrays: Arrays, kind: Kind, members: int) -> list[Spot]:
    """Books all members and returns their spots, or books none and returns an empty list."""
    spots: list[Spot] = []
    for _ in range(members):
        spot = placement.choose(kind)
        if spot is None:
            for booked in reversed(spots):
                arrays.give(booked, kind)
            return []
        arrays.take(spot, kind)
        spots.append(spot)
    return spots


def _demand(snapshot: ClusterSnapshot, kinds: Mapping[str, Kind]) -> dict[Kind, float]:
    """The recent demand that the caller knows, else what waits now."""
    demand: dict[Kind, float] = {}
    for known in snapshot.demand:
        kind = Kind.of(known.workload)
        demand[kind] = demand.get(kind, 0.0) + known.weight
    if not demand:
        for workload in snapshot.workloads:
            kind = kinds[workload.id]
            demand[kind] = demand.get(kind, 0.0) + workload.members
    return demand


def _decision(arrays: Arrays, workload: WorkloadView, spots: list[Spot], name: str) -> Decision:
    parts = [_part(arrays, spot) for spot in spots]
    free = int((arrays.share[spots[0].row] == WHOLE).sum())
    why = f"{name}: leaves {free} free GPUs"
    return Decision(
        workload.id, parts[0].node_id, parts[0].device_ids, why, {"gpus_left": free}, more=tuple(parts[1:])
    )  # fmt: skip


def _part(arrays: Arrays, spot: Spot) -> Part:
    node = arrays.nodes[spot.row]
    return Part(node.id, tuple(node.devices[column].id for column in spot.columns))


def _over_quota(left: Mapping[str, int | None], workload: WorkloadView) -> Reason | None:
    room = left.get(workload.tenant_id)
    if room is None or workload.gpus_total <= room:
        return None
    return Reason("tenant_gpu_quota", {"gpus_asked": workload.gpus_total, "gpus_left": max(0, room)})
