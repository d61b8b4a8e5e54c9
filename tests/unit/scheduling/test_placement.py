"""Placement on arrays: what is derived step by step equals what is built anew; room is never given out twice."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.scheduling.engine import (
    ClusterSnapshot,
    DemandView,
    DeviceView,
    NodeView,
    Plan,
    Policy,
    WorkloadView,
    schedule,
)
from apps.scheduling.engine.arrays import Arrays, Kind
from apps.scheduling.engine.placement import PLACEMENTS
from apps.scheduling.engine.types import WHOLE

DETERMINED = sorted(set(PLACEMENTS) - {"random"})
KINDS = [
    Kind(0, 0, 0, (), 3000, 100),
    Kind(1, 300, 8000, (), 1000, 100),
    Kind(1, 500, 20_000, ("A",), 2000, 100),
    Kind(1, WHOLE, 0, (), 4000, 100),
    Kind(2, WHOLE, 0, ("B",), 8000, 100),
    Kind(4, WHOLE, 0, ("A", "B"), 2000, 100),
]


def node(name: str, model: str = "A", gpus: int = 4, cpu: int = 16_000) -> NodeView:
    devices = tuple(DeviceView(f"{name}/{i}", model, 40_000, WHOLE) for i in range(gpus))
    return NodeView(name, name, cpu, cpu, 10_000, 10_000, devices)


def work(name: str, kind: Kind, members: int = 1, at: float = 0.0) -> WorkloadView:
    return WorkloadView(
        name, "t", kind.gpus, "", kind.gpu_memory_mib, kind.cpu_milli, kind.memory_mib, at,
        gpu_share=kind.share or WHOLE, gpu_models=kind.models, members=members,
    )  # fmt: skip


def plan(nodes: list[NodeView], works: list[WorkloadView], **policy: str) -> Plan:
    return schedule(ClusterSnapshot(tuple(nodes), tuple(works)), now=1.0, policy=Policy(**policy), seed=7)  # type: ignore[arg-type]


cluster = st.lists(st.tuples(st.sampled_from(["A", "B"]), st.integers(0, 4)), min_size=1, max_size=5)
queue = st.lists(st.sampled_from(KINDS), max_size=25)


@settings(max_examples=60, deadline=None)
@given(cluster, queue, st.sampled_from(DETERMINED))
def test_scores_kept_up_to_date_choose_as_scores_made_anew(
    raw: list[tuple[str, int]], kinds: list[Kind], policy: str
) -> None:
    arrays = Arrays([node(f"n{i}", m, g) for i, (m, g) in enumerate(raw)])
    demand = Counter(kinds)
    kept = PLACEMENTS[policy](arrays, demand, 1)
    for kind in kinds:
        spot = kept.choose(kind)
        assert spot == PLACEMENTS[policy](arrays, demand, 1).choose(kind)
        if spot is not None:
            arrays.take(spot, kind)


@settings(max_examples=60, deadline=None)
@given(cluster, queue, st.sampled_from(sorted(PLACEMENTS)))
def test_room_is_never_exceeded_and_what_is_given_back_is_there_again(
    raw: list[tuple[str, int]], kinds: list[Kind], policy: str
) -> None:
    arrays = Arrays([node(f"n{i}", m, g) for i, (m, g) in enumerate(raw)])
    start = [a.copy() for a in (arrays.cpu, arrays.memory, arrays.share, arrays.gpu_memory)]
    placement = PLACEMENTS[policy](arrays, Counter(kinds), 1)
    booked = []
    for kind in kinds:
        spot = placement.choose(kind)
        if spot is not None:
            assert len(set(spot.columns)) == kind.gpus
            arrays.take(spot, kind)
            booked.append((spot, kind))
            assert min(a.min() for a in (arrays.cpu, arrays.memory, arrays.share, arrays.gpu_memory)) >= 0
    for spot, kind in reversed(booked):
        arrays.give(spot, kind)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(start, (arrays.cpu, arrays.memory, arrays.share, arrays.gpu_memory), strict=True)
    )


@settings(max_examples=60, deadline=None)
@given(cluster, st.sampled_from(KINDS), st.integers(1, 12))
def test_a_gang_starts_whole_or_not_at_all(raw: list[tuple[str, int]], kind: Kind, members: int) -> None:
    nodes = [node(f"n{i}", m, g) for i, (m, g) in enumerate(raw)]
    result = plan(nodes, [work("gang", kind, members)])
    assert result == plan(nodes, [work("gang", kind, members)])
    for decision in result.decisions:
        assert 1 + len(decision.more) == members
    assert len(result.decisions) + len(result.reasons) == 1


def test_a_gang_that_does_not_fit_leaves_its_room_to_other_gpus_only() -> None:
    result = plan([node("a"), node("b", "B")], [work("gang", Kind(4, WHOLE, 0, ("A",), 1, 1), 2), work("b", KINDS[4])])
    assert [d.workload_id for d in result.decisions] == ["b"]
    assert result.reasons["gang"].code in {"gpus_busy", "behind_others"}


@pytest.mark.parametrize("policy", ["best_fit", "fragmentation"])
def test_a_share_joins_a_share_before_it_breaks_a_whole_gpu(policy: str) -> None:
    works = [work(f"s{i}", KINDS[1], at=float(i)) for i in range(3)] + [work("whole", KINDS[3], at=9.0)]
    result = plan([node("a"), node("b")], works, placement=policy)
    assert len({d.device_ids for d in result.decisions if d.workload_id != "whole"}) == 1


def test_work_for_any_model_leaves_the_model_that_others_name() -> None:
    demand = (DemandView(work("x", Kind(1, WHOLE, 0, ("B",), 1000, 100)), 1.0), DemandView(work("y", KINDS[3]), 1.0))
    snapshot = ClusterSnapshot((node("b", "B"), node("a", "A")), (work("any", KINDS[3]),), demand=demand)
    result = schedule(snapshot, now=1.0, policy=Policy(), seed=1)
    assert result.decisions[0].node_id == "a"
