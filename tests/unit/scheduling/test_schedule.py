"""The engine: first come, first served with best fit; every workload is decided or has its one reason."""

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.scheduling.engine import (
    ClusterSnapshot,
    DeviceView,
    NodeView,
    Plan,
    Policy,
    TenantView,
    WorkloadView,
    schedule,
)


def node(
    name: str, gpus: int = 8, busy: int = 0, model: str = "H100", cpu: int = 64_000, memory: int = 500_000
) -> NodeView:
    devices = tuple(
        DeviceView(id=f"{name}/{i}", model=model, memory_mib=80_000, share_free=0 if i < busy else 1000)
        for i in range(gpus)
    )
    return NodeView(name, name, cpu, cpu, memory, memory, devices)


def work(name: str, gpus: int = 1, at: float = 0.0, **changes: object) -> WorkloadView:
    values: dict[str, object] = {
        "id": name, "tenant_id": "t", "gpus": gpus, "gpu_model": "", "gpu_memory_mib": 0, "cpu_milli": 1000,
        "memory_mib": 1000, "submitted_at": at,
    }  # fmt: skip
    return WorkloadView(**{**values, **changes})  # type: ignore[arg-type]


def plan(nodes: list[NodeView], workloads: list[WorkloadView], tenants: tuple[TenantView, ...] = ()) -> Plan:
    return schedule(ClusterSnapshot(tuple(nodes), tuple(workloads), tenants), now=100.0, policy=Policy(), seed=1)


def placed(result: Plan) -> dict[str, str]:
    return {d.workload_id: d.node_id for d in result.decisions}


def test_best_fit_fills_the_fuller_node() -> None:
    assert placed(plan([node("a"), node("b", busy=6)], [work("w", 2)])) == {"w": "b"}


def test_first_come_first_served() -> None:
    result = plan([node("a", gpus=1)], [work("late", at=2), work("early", at=1)])
    assert placed(result) == {"early": "a"}
    assert result.reasons["late"].code == "gpus_busy"


def test_a_waiting_wide_job_keeps_the_gpus_it_waits_for() -> None:
    result = plan([node("a", gpus=8, busy=4)], [work("wide", 8, at=1), work("small", 1, at=2)])
    assert placed(result) == {}
    assert (result.reasons["wide"].code, result.reasons["small"].code) == ("gpus_busy", "behind_others")
    assert result.reasons["wide"].numbers["gpus_free_most_on_a_node"] == 4


def test_a_waiting_job_does_not_hold_up_those_who_use_other_gpus() -> None:
    nodes = [node("a", gpus=1, busy=1), node("b", gpus=1, model="A100")]
    jobs = [work("h", gpu_model="H100", at=1), work("a100", gpu_model="A100", at=2), work("cpu", 0, at=3)]
    assert placed(plan(nodes, jobs)) == {"a100": "b", "cpu": placed(plan(nodes, jobs))["cpu"]}


def test_what_could_never_run_says_so_and_holds_up_nobody() -> None:
    result = plan([node("a", gpus=4)], [work("huge", 8, at=1), work("ok", 4, at=2)])
    assert placed(result) == {"ok": "a"}
    assert result.reasons["huge"].code == "never_fits"
    assert result.reasons["huge"].numbers["gpus_most_on_a_node"] == 4


def test_no_nodes() -> None:
    assert plan([], [work("w")]).reasons["w"].code == "no_nodes"


def test_tenant_quota_holds_up_its_own_tenant_only() -> None:
    jobs = [work("over", 2, at=1), work("other", 2, at=2, tenant_id="u")]
    result = plan([node("a")], jobs, (TenantView("t", 1), TenantView("u", None)))
    assert placed(result) == {"other": "a"}
    assert result.reasons["over"].numbers == {"gpus_asked": 2, "gpus_left": 1}


def test_an_unhealthy_gpu_is_not_given_out() -> None:
    sick = NodeView("a", "a", 8000, 8000, 8000, 8000, (DeviceView("d", "H100", 80_000, 1000, healthy=False),))
    assert plan([sick], [work("w")]).reasons["w"].code == "never_fits"


def test_memory_and_cpu_count_too() -> None:
    result = plan([node("a", cpu=2000)], [work("one", 1, cpu_milli=1500, at=1), work("two", 1, cpu_milli=1500, at=2)])
    assert placed(result) == {"one": "a"}
    assert result.reasons["two"].code == "room_busy"


nodes_strategy = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.sampled_from(["H100", "A100"]), st.integers(1000, 64_000)),
    max_size=5,
)
works_strategy = st.lists(
    st.tuples(
        st.integers(0, 9), st.sampled_from(["", "H100", "A100", "X"]), st.integers(100, 40_000), st.floats(0, 10),
        st.sampled_from(["t", "u"]),
    ),
    max_size=12,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(nodes_strategy, works_strategy, st.integers(0, 10))
def test_capacity_is_never_exceeded_and_nothing_is_forgotten(
    raw_nodes: list[tuple[int, int, str, int]], raw_works: list[tuple[int, str, int, float, str]], left: int
) -> None:
    nodes = [node(f"n{i}", g, min(b, g), m, c) for i, (g, b, m, c) in enumerate(raw_nodes)]
    works = [
        work(f"w{i}", g, at, gpu_model=m, cpu_milli=c, tenant_id=t) for i, (g, m, c, at, t) in enumerate(raw_works)
    ]
    tenants = (TenantView("t", left), TenantView("u", None))
    result = plan(nodes, works, tenants)
    assert result == plan(nodes, list(reversed(works)), tenants)
    by_id = {w.id: w for w in works}
    assert {d.workload_id for d in result.decisions} | set(result.reasons) == set(by_id)
    assert len(result.decisions) + len(result.reasons) == len(works)
    taken = [device for d in result.decisions for device in d.device_ids]
    assert len(taken) == len(set(taken))
    free = {d.id: d for n in nodes for d in n.devices if d.share_free == 1000}
    for decision in result.decisions:
        workload = by_id[decision.workload_id]
        assert len(decision.device_ids) == workload.gpus
        assert all(free[x].model == (workload.gpu_model or free[x].model) for x in decision.device_ids)
        assert all(x.startswith(decision.node_id + "/") for x in decision.device_ids)
    for n in nodes:
        assert sum(by_id[d.workload_id].cpu_milli for d in result.decisions if d.node_id == n.id) <= n.cpu_milli_free
    used = sum(by_id[d.workload_id].gpus for d in result.decisions if by_id[d.workload_id].tenant_id == "t")
    assert used <= left
