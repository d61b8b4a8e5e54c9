"""One cycle of the scheduler: snapshot, engine, application."""

import dataclasses
import datetime as dt
import uuid
from collections.abc import Mapping

from django.db import connection

from apps.core.failpoints import failpoint
from apps.core.tenancy import system_scope
from apps.fleet.choices import GpuHealth
from apps.fleet.selectors import nodes_for_placement
from apps.fleet.types import NodeView as FleetNode
from apps.scheduling import engine
from apps.tenants.selectors import gpus_left_by_tenant
from apps.workloads.selectors import pending_jobs
from apps.workloads.services import pending_explain, placement_apply
from apps.workloads.types import PendingJob, Placement

SNAPSHOT_LIMIT = 10_000
_CYCLE_LOCK = 0x42_45_52_54  # one cycle at a time, whoever runs it


@dataclasses.dataclass(frozen=True)
class CycleResult:
    """What a cycle did: jobs placed, decisions that were stale, jobs that wait on."""

    placed: int
    stale: int
    waiting: int


def cycle_run(*, now: dt.datetime, policy: engine.Policy | None = None, seed: int = 0) -> CycleResult:
    """Decides and applies once; returns at once when another process is in a cycle (its wake covers ours)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [_CYCLE_LOCK])
        if not cursor.fetchone()[0]:
            return CycleResult(0, 0, 0)
        try:
            return _cycle(now, policy or engine.Policy(), seed)
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [_CYCLE_LOCK])


def _cycle(now: dt.datetime, policy: engine.Policy, seed: int) -> CycleResult:
    with system_scope():
        jobs = pending_jobs(limit=SNAPSHOT_LIMIT)
        if not jobs:
            return CycleResult(0, 0, 0)
        snapshot = _snapshot(jobs, nodes_for_placement())
    failpoint("S4")
    plan = engine.schedule(snapshot, now=now.timestamp(), policy=policy, seed=seed)
    names = {node.id: node.name for node in snapshot.nodes}
    applied = [placement_apply(placement=_placement(one, names), now=now) for one in plan.decisions]
    for job in jobs:
        reason = plan.reasons.get(str(job.id))
        if reason is not None and (reason.code, dict(reason.numbers)) != (job.pending_reason, job.pending_detail):
            pending_explain(job_id=job.id, reason=reason.code, detail=reason.numbers, now=now)
    return CycleResult(placed=sum(applied), stale=applied.count(False), waiting=len(plan.reasons))


def _snapshot(jobs: list[PendingJob], nodes: list[FleetNode]) -> engine.ClusterSnapshot:
    tenants = gpus_left_by_tenant({job.tenant_id for job in jobs})
    return engine.ClusterSnapshot(
        nodes=tuple(_node(node) for node in nodes),
        workloads=tuple(_workload(job) for job in jobs),
        tenants=tuple(engine.TenantView(id=str(tenant), gpus_left=left) for tenant, left in tenants.items()),
    )


def _node(node: FleetNode) -> engine.NodeView:
    return engine.NodeView(
        id=str(node.id), name=node.name, cpu_milli=node.cpu_milli, cpu_milli_free=node.cpu_milli - node.cpu_milli_used,
        memory_mib=node.memory_mib, memory_mib_free=node.memory_mib - node.memory_mib_used,
        devices=tuple(
            engine.DeviceView(
                id=str(g.id), model=g.model, memory_mib=g.memory_mib, share_free=g.share_free,
                healthy=g.health == GpuHealth.OK,
            )
            for g in node.gpus
        ),
    )  # fmt: skip


def _workload(job: PendingJob) -> engine.WorkloadView:
    return engine.WorkloadView(
        id=str(job.id), tenant_id=str(job.tenant_id), gpus=job.gpus, gpu_model=job.gpu_model,
        gpu_memory_mib=job.gpu_memory_mib, cpu_milli=job.cpu_milli, memory_mib=job.memory_mib,
        submitted_at=job.submitted_at.timestamp(),
    )  # fmt: skip


def _placement(decision: engine.Decision, names: Mapping[str, str]) -> Placement:
    return Placement(
        job_id=uuid.UUID(decision.workload_id), node_id=uuid.UUID(decision.node_id),
        node_name=names[decision.node_id],
        gpu_ids=tuple(uuid.UUID(d) for d in decision.device_ids), why=decision.why,
    )  # fmt: skip
