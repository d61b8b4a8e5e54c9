"""The database's own guards: states, append-only tables, tenancy, double use of a GPU."""

import threading
import uuid

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from apps.audit.models import AuditEntry
from apps.core import checks, state
from apps.core.clock import utc_now
from apps.core.errors import QuotaExceeded, StateConflict
from apps.core.models import Event, OutboxMessage
from apps.core.tenancy import ScopeError, system_scope, tenant_scope
from apps.fleet.models import Node, NodeOperation
from apps.scheduling.services import cycle_run
from apps.workloads.models import AllocationDevice, Job
from tests.spine_world import make_member, make_node, make_tenant, submit

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_state_moves_along_its_edges_only() -> None:
    node = make_node()
    with pytest.raises(DatabaseError, match="can not go from ready to enrolling"), transaction.atomic():
        Node.objects.filter(pk=node.node.pk).update(state="enrolling")
    with pytest.raises(DatabaseError, match="can not begin in state ready"), transaction.atomic():
        Node.objects.create(name="x", address="10.9.9.9", state="ready")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('pgtrigger.ignore', '{fleet_node:node_state}', true)")
        with pytest.raises(DatabaseError, match="can not go"), transaction.atomic():
            Node.objects.filter(pk=node.node.pk).update(state="enrolling")


def test_a_lost_swap_is_told_and_changes_nothing() -> None:
    node = make_node()
    with pytest.raises(StateConflict, match="is ready; this needs it to be enrolling"):
        state.transition(Node, node.node.pk, expect=["enrolling"], to="retired", event="node.x", now=utc_now())
    with system_scope():
        assert not Event.objects.filter(name="node.x").exists()


def test_history_can_not_be_rewritten() -> None:
    tenant = make_tenant()
    _, alice = make_member(tenant, "alice@example.org")
    submit(alice, tenant)
    for rows in (AuditEntry.objects, Event.objects):
        with system_scope():
            assert rows.exists()
        with pytest.raises(DatabaseError), system_scope(), transaction.atomic():
            rows.all().delete()
        with pytest.raises(DatabaseError), system_scope(), transaction.atomic():
            rows.update(at=utc_now())


def test_a_query_that_forgets_the_tenant_reads_and_writes_nothing() -> None:
    tenant, other = make_tenant(), make_tenant("other")
    _, alice = make_member(tenant, "alice@example.org")
    _, charlie = make_member(other, "charlie@example.org")
    job, theirs = submit(alice, tenant), submit(charlie, other)
    assert Job.objects.count() == 0
    assert Job.objects.filter(pk=job.pk).update(name="taken") == 0
    with tenant_scope(tenant.id):
        assert [j.pk for j in Job.objects.all()] == [job.pk]
        assert Job.objects.filter(pk=theirs.pk).update(name="taken") == 0
        with pytest.raises(DatabaseError), transaction.atomic():
            Event.objects.create(
                tenant_id=other.id, object_kind="job", object_id=job.pk, seq=99, name="x", at=utc_now()
            )
    seen: list[int] = []

    def look() -> None:
        seen.append(Job.objects.count())
        connection.close()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [0]


def test_a_tenants_scope_can_not_be_left_for_another() -> None:
    one, two = make_tenant("one"), make_tenant("two")
    with tenant_scope(one.id), pytest.raises(ScopeError), tenant_scope(two.id):
        pass
    with tenant_scope(one.id), pytest.raises(ScopeError), system_scope():
        pass
    with system_scope(), tenant_scope(one.id):
        assert Job.objects.count() == 0


def test_every_tenant_table_is_guarded() -> None:
    assert checks.database_keeps_tenants_apart(None, databases=["default"]) == []
    assert len(checks.tenant_tables()) >= 11


def test_a_whole_gpu_is_held_once() -> None:
    tenant, _ = make_tenant(), make_node(gpus=1)
    _, alice = make_member(tenant, "alice@example.org")
    submit(alice, tenant)
    cycle_run(now=utc_now())
    with system_scope():
        device = AllocationDevice.objects.get()
        copy = AllocationDevice(tenant_id=device.tenant_id, allocation_id=device.allocation_id, gpu_id=device.gpu_id)
        with pytest.raises(IntegrityError, match="gpu_whole_held_once"), transaction.atomic():
            copy.save()


def test_parallel_submits_never_pass_the_quota() -> None:
    tenant = make_tenant(jobs=10)
    _, alice = make_member(tenant, "alice@example.org")
    outcomes: list[str] = []
    start = threading.Barrier(10)

    def five() -> None:
        start.wait()
        for _ in range(5):
            try:
                submit(alice, tenant)
                outcomes.append("in")
            except QuotaExceeded:
                outcomes.append("out")
        connection.close()

    threads = [threading.Thread(target=five) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (outcomes.count("in"), outcomes.count("out")) == (10, 40)
    with tenant_scope(tenant.id):
        assert Job.objects.count() == 10


def test_a_rolled_back_change_leaves_no_wish() -> None:
    tenant = make_tenant(jobs=0)
    _, alice = make_member(tenant, "alice@example.org")
    before = OutboxMessage.objects.count()
    with pytest.raises(QuotaExceeded):
        submit(alice, tenant)
    assert OutboxMessage.objects.count() == before


def test_one_live_operation_of_a_kind_per_object() -> None:
    node = make_node()
    values = {
        "node": node.node,
        "kind": "attempt_stop",
        "object_id": uuid.uuid4(),
        "args_sealed": b"",
        "deadline_at": utc_now(),
    }
    NodeOperation.objects.create(**values)
    with pytest.raises(IntegrityError, match="operation_live_once"):
        NodeOperation.objects.create(**values)
