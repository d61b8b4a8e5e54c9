"""A job's way through the rows: submitted, placed, started, ended; what is taken is given back, whatever happens."""

import hashlib
import uuid
from decimal import Decimal

import pytest

from apps.billing.models import UsageInterval
from apps.billing.selectors import gpu_seconds_of
from apps.core.clock import utc_now
from apps.core.errors import Conflict, Forbidden, NotFound, QuotaExceeded
from apps.core.models import Event
from apps.core.tenancy import system_scope
from apps.fleet.models import GpuDevice, Node, NodeOperation
from apps.fleet.services import node_mark_down, nodes_mark_silent, operation_claim
from apps.notifications.models import Notification
from apps.scheduling.services import cycle_run
from apps.tenants.models import QuotaUse
from apps.tenants.types import TenantRef
from apps.workloads.models import Attempt, ByteStream, Job
from apps.workloads.services import attempts_lost_with_node, job_cancel, job_requeue
from tests.spine_world import PlayedNode, later, make_member, make_node, make_tenant, put_log, submit

pytestmark = pytest.mark.django_db(transaction=True)


def attempt_of(job: Job) -> Attempt:
    with system_scope():
        return Attempt.objects.filter(job=job).order_by("-no")[0]


def fresh(job: Job) -> Job:
    with system_scope():
        return Job.objects.get(pk=job.pk)


def assert_nothing_held(tenant: TenantRef) -> None:
    with system_scope():
        assert set(GpuDevice.objects.values_list("share_used", flat=True)) == {0}
        assert set(Node.objects.values_list("cpu_milli_used", "memory_mib_used")) == {(0, 0)}
        assert set(QuotaUse.objects.filter(tenant_id=tenant.id).values_list("used", flat=True)) == {0}
        assert not UsageInterval.objects.filter(ended_at=None).exists()


def answer_start(node: PlayedNode, attempt: Attempt) -> None:
    with system_scope():
        operation = NodeOperation.objects.get(kind="attempt_start", object_id=attempt.id)
    claim = operation_claim(operation_id=operation.id, nodes=[operation.node_id], now=utc_now())
    assert claim is not None
    node.answer(operation.id, claim.token)


def run_to_running(job: Job, node: PlayedNode) -> Attempt:
    cycle_run(now=utc_now())
    attempt = attempt_of(job)
    answer_start(node, attempt)
    assert node.status(attempt.id, "preparing")
    assert node.status(attempt.id, "running", container_id="c1")
    return attempt


def exited(node: PlayedNode, attempt: Attempt, **data: object) -> bool:
    values = {
        "exit_code": 0,
        "signal": None,
        "oom": False,
        "timed_out": False,
        "stopped": None,
        "ran_ns": 2_500_000_000,
    }
    return node.status(attempt.id, "exited", **{**values, "streams": {}, **data})


def test_a_job_succeeds_and_everything_is_given_back() -> None:
    tenant, node = make_tenant(), make_node()
    _, alice = make_member(tenant, "alice@example.org", "owner")
    job = submit(alice, tenant, gpus=3)
    assert fresh(job).pending_reason == "submitted"
    attempt = run_to_running(job, node)
    assert fresh(job).state == "running"
    with system_scope():
        assert GpuDevice.objects.filter(share_used=1000).count() == 3
    log = b"epoch 1\r\nepoch 2\n\0\xff"
    put_log(node, attempt.id, log)
    assert exited(node, attempt, streams={"0": {"length": len(log), "sha256": None, "truncated": False}})
    done = fresh(job)
    assert (done.state, done.result, done.end_reason) == ("ended", "succeeded", "exited")
    assert gpu_seconds_of(tenant=tenant, object_id=job.id) == Decimal("7.5")
    with system_scope():
        stream = ByteStream.objects.get(attempt=attempt, stream=0)
        assert stream.sha256 == hashlib.sha256(log).hexdigest()
        assert Notification.objects.filter(address="alice@example.org", subject__contains="succeeded").count() == 1
        names = list(Event.objects.filter(object_id=job.id).order_by("seq").values_list("seq", "name"))
    assert [seq for seq, _ in names] == list(range(1, len(names) + 1))
    assert [name for _, name in names] == [
        "job.submitted", "job.placed", "job.starting", "job.running", "job.ended",
    ]  # fmt: skip
    assert_nothing_held(tenant)


def test_an_end_waits_for_its_bytes() -> None:
    tenant, node = make_tenant(), make_node()
    _, alice = make_member(tenant, "alice@example.org")
    job = submit(alice, tenant)
    attempt = run_to_running(job, node)
    assert exited(node, attempt, streams={"0": {"length": 4, "sha256": None, "truncated": False}}) is False
    assert fresh(job).state == "running"
    node.reports.on_bytes(attempt.id, 0, 0, b"half")
    node.reports.flush_late()
    assert fresh(job).result == "succeeded"
    assert node.voice.status_acks == [(attempt.id, node.seqs[attempt.id])]


@pytest.mark.parametrize(
    ("data", "reason", "result"),
    [
        ({"exit_code": 3}, "exit_code", "failed"),
        ({"exit_code": 137, "signal": "SIGKILL", "oom": True}, "out_of_memory", "failed"),
        ({"exit_code": 139, "signal": "SIGSEGV"}, "signal", "failed"),
        ({"exit_code": 143, "signal": "SIGTERM", "timed_out": True}, "time_limit", "failed"),
    ],
)
def test_ends_are_told_apart(data: dict[str, object], reason: str, result: str) -> None:
    tenant, node = make_tenant(), make_node()
    _, alice = make_member(tenant, "alice@example.org")
    job = submit(alice, tenant, max_retries=3)
    attempt = run_to_running(job, node)
    assert exited(node, attempt, **data)
    done = fresh(job)
    assert (done.end_reason, done.result) == (reason, result)
    assert_nothing_held(tenant)


def test_user_fault_ends_and_node_fault_is_retried() -> None:
    tenant, node = make_tenant(), make_node()
    _, alice = make_member(tenant, "alice@example.org")
    job = submit(alice, tenant, max_retries=1)
    cycle_run(now=utc_now())
    first = attempt_of(job)
    assert node.status(
        first.id, "failed", stage="create", fault="node", code="disk_full", message="disk full", streams={}
    )
    assert (fresh(job).state, fresh(job).pending_reason) == ("pending", "requeued")
    cycle_run(now=utc_now())
    second = attempt_of(job)
    assert second.no == 2
    assert node.status(
        second.id, "failed", stage="pull", fault="user", code="no_image", message="no such image", streams={}
    )
    assert (fresh(job).result, fresh(job).end_reason) == ("failed", "user_fault")
    assert_nothing_held(tenant)


def test_repeated_and_late_reports_change_nothing() -> None:
    tenant, node = make_tenant(), make_node()
    _, alice = make_member(tenant, "alice@example.org")
    job = submit(alice, tenant)
    attempt = run_to_running(job, node)
    assert exited(node, attempt)
    seq = fresh(job).seq
    node.seqs[attempt.id] = 0
    assert node.status(attempt.id, "running", container_id="c1")
    assert exited(node, attempt, exit_code=9)
    assert (fresh(job).seq, fresh(job).result) == (seq, "succeeded")
    with system_scope():
        assert UsageInterval.objects.count() == 1


@pytest.mark.parametrize("stage", ["pending", "placed", "running"])
def test_cancel_at_each_stage_leaks_nothing(stage: str) -> None:
    tenant, node = make_tenant(), make_node()
    _, alice = make_member(tenant, "alice@example.org")
    job = submit(alice, tenant)
    if stage == "placed":
        cycle_run(now=utc_now())
    if stage == "running":
        run_to_running(job, node)
    job_cancel(actor=alice, tenant=tenant, job_id=job.id, now=utc_now())
    if stage != "pending":
        assert fresh(job).state == "stopping"
        attempt = attempt_of(job)
        if stage == "running":
            assert exited(node, attempt, exit_code=143, signal="SIGTERM", stopped="cancelled")
        else:
            assert node.status(attempt.id, "cancelled", reason="cancelled", streams={})
    assert (fresh(job).state, fresh(job).result, fresh(job).end_reason) == ("ended", "cancelled", "cancelled")
    assert_nothing_held(tenant)
    with pytest.raises(Conflict):
        job_cancel(actor=alice, tenant=tenant, job_id=job.id, now=utc_now())
    job_requeue(actor=alice, tenant=tenant, job_id=job.id, now=utc_now())
    assert fresh(job).pending_reason == "requeued"


def test_a_silent_node_keeps_its_job_and_a_reboot_loses_it() -> None:
    tenant, node = make_tenant(), make_node()
    _, alice = make_member(tenant, "alice@example.org")
    job = submit(alice, tenant)
    attempt = run_to_running(job, node)
    nodes_mark_silent(now=later(60))
    with system_scope():
        assert Node.objects.get().state == "unreachable"
    assert fresh(job).state == "running"
    node.hello({attempt.id: "running"})
    with system_scope():
        assert Node.objects.get().state == "ready"
    assert fresh(job).state == "running"
    node.boot_id = "boot-2"
    node.hello({attempt.id: "running"})
    assert node.status(attempt.id, "lost", reason="reboot", ran_ns=1_000_000_000, streams={})
    assert (fresh(job).result, fresh(job).end_reason) == ("lost", "node_lost")
    assert gpu_seconds_of(tenant=tenant, object_id=job.id) == Decimal(1)
    assert_nothing_held(tenant)


def test_a_node_declared_down_requeues_and_its_container_is_stopped_on_return() -> None:
    tenant, node = make_tenant(), make_node()
    _, alice = make_member(tenant, "alice@example.org")
    job = submit(alice, tenant, max_retries=1)
    attempt = run_to_running(job, node)
    nodes_mark_silent(now=later(60))
    node_mark_down(node_id=node.node.id, reason="test", now=utc_now())
    assert attempts_lost_with_node(node_id=node.node.id, detail="down", now=utc_now()) == 1
    assert fresh(job).state == "pending"
    node.hello({attempt.id: "running"})
    with system_scope():
        stops = NodeOperation.objects.filter(kind="attempt_stop", object_id=attempt.id, state="queued")
        assert stops.count() == 1
    assert_nothing_held_but_jobs(tenant)


def assert_nothing_held_but_jobs(tenant: TenantRef) -> None:
    with system_scope():
        assert set(GpuDevice.objects.values_list("share_used", flat=True)) == {0}
        assert QuotaUse.objects.get(tenant_id=tenant.id, resource="jobs").used == 1


def test_a_node_that_forgot_an_accepted_attempt_loses_it() -> None:
    tenant, node = make_tenant(), make_node()
    _, alice = make_member(tenant, "alice@example.org")
    job = submit(alice, tenant)
    run_to_running(job, node)
    node.hello({})
    assert fresh(job).result == "lost"
    assert_nothing_held(tenant)


def test_others_may_look_but_not_touch_and_strangers_see_nothing() -> None:
    tenant, other = make_tenant(), make_tenant("other")
    _, alice = make_member(tenant, "alice@example.org", "owner")
    _, bob = make_member(tenant, "bob@example.org")
    _, charlie = make_member(other, "charlie@example.org", "owner")
    job = submit(alice, tenant)
    with pytest.raises(Forbidden):
        job_cancel(actor=bob, tenant=tenant, job_id=job.id, now=utc_now())
    with pytest.raises(NotFound):
        job_cancel(actor=charlie, tenant=other, job_id=job.id, now=utc_now())
    mine = submit(bob, tenant)
    job_cancel(actor=alice, tenant=tenant, job_id=mine.id, now=utc_now())
    assert fresh(mine).result == "cancelled"


def test_quota_refuses_and_explains() -> None:
    tenant = make_tenant(jobs=1, gpus=1)
    _, alice = make_member(tenant, "alice@example.org")
    submit(alice, tenant)
    with pytest.raises(QuotaExceeded, match="quota of 1 jobs"):
        submit(alice, tenant)
    make_node()
    wide = make_tenant("wide", gpus=2)
    _, dora = make_member(wide, "dora@example.org")
    job = submit(dora, wide, gpus=3)
    cycle_run(now=utc_now())
    assert (fresh(job).pending_reason, fresh(job).pending_detail["gpus_left"]) == ("tenant_gpu_quota", 2)


def test_what_is_unknown_here_is_stopped_and_removed_and_its_bytes_are_not_kept() -> None:
    node = make_node()
    alive, gone = uuid.uuid4(), uuid.uuid4()
    node.hello({alive: "running", gone: "exited"})
    assert node.reports.on_bytes(alive, 0, 0, b"whose?") == 6
    with system_scope():
        asked = set(NodeOperation.objects.filter(state="queued").values_list("kind", "object_id"))
    assert {("attempt_stop", alive), ("attempt_remove", gone)} <= asked
    assert exited_of(node, alive)
    with system_scope():
        assert NodeOperation.objects.filter(kind="attempt_remove", object_id=alive).exists()
        assert not ByteStream.objects.exists()


def exited_of(node: PlayedNode, attempt_id: uuid.UUID) -> bool:
    return node.status(attempt_id, "exited", exit_code=0, streams={"0": {"length": 6, "sha256": None}})
