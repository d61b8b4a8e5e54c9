"""The relay: wishes reach their queues at least once, and the sweep finds what a message may have lost."""

import datetime as dt
from typing import Any

import pytest
from django.db import connection

from apps.core.clock import utc_now
from apps.core.models import IdempotencyRecord, OutboxMessage
from apps.core.outbox import Wish, outbox_put
from apps.core.tenancy import system_scope
from apps.fleet.models import NodeOperation
from apps.scheduling.services import cycle_run
from apps.workloads.models import Attempt, Job
from tests.spine_world import later, make_member, make_node, make_tenant, submit
from workers.metering import forget_old
from workers.relay import outbox, sweeps
from workers.routes import ROUTES

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    calls: list[tuple[str, str, str]] = []

    def send(task: str, key: str, queue: str) -> None:
        calls.append((task, key, queue))

    monkeypatch.setattr(outbox, "send", send)
    monkeypatch.setattr(sweeps, "send", send)
    return calls


def put(*wishes: Wish) -> None:
    with system_scope():
        outbox_put(wishes)


def test_wishes_are_handed_on_and_equal_wakes_once(sent: list[tuple[str, str, str]]) -> None:
    put(*[Wish("schedule.wake", "all")] * 5, Wish("notification.deliver", "n1"), Wish("notification.deliver", "n2"))
    assert outbox.drain() == 7
    assert sorted(sent) == [
        ("notifications.deliver", "n1", "notifications"), ("notifications.deliver", "n2", "notifications"),
        ("scheduling.cycle", "all", "scheduling"),
    ]  # fmt: skip
    assert OutboxMessage.objects.count() == 0


def test_a_broker_that_fails_loses_nothing(monkeypatch: pytest.MonkeyPatch, sent: list[Any]) -> None:
    put(Wish("schedule.wake", "all"))

    def broken(task: str, key: str, queue: str) -> None:
        raise ConnectionError("redis is away")

    with monkeypatch.context() as patch:
        patch.setattr(outbox, "send", broken)
        with pytest.raises(ConnectionError):
            outbox.drain()
    assert OutboxMessage.objects.get().attempts == 1
    assert outbox.drain() == 0  # claimed for a while
    OutboxMessage.objects.update(not_before=utc_now() - dt.timedelta(seconds=1))
    assert outbox.drain() == 1
    assert sent == [("scheduling.cycle", "all", "scheduling")]


def test_a_wish_for_later_waits(sent: list[Any]) -> None:
    put(Wish("schedule.wake", "all", not_before=later(3600)))
    assert outbox.drain() == 0
    assert sent == []


def test_unknown_topics_do_not_stop_the_line(sent: list[tuple[str, str, str]]) -> None:
    put(Wish("no.such", "x"), Wish("schedule.wake", "all"))
    outbox.drain()
    assert [task for task, _, _ in sent] == ["scheduling.cycle"]


def test_the_sweep_wakes_for_waiting_jobs_and_resends_operations(sent: list[tuple[str, str, str]]) -> None:
    tenant, node = make_tenant(), make_node()
    _, alice = make_member(tenant, "alice@example.org")
    job = submit(alice, tenant)
    OutboxMessage.objects.all().delete()  # every message lost
    sweeps.sweep_pending(utc_now())
    assert ("scheduling.cycle", "sweep", "scheduling") in sent
    cycle_run(now=utc_now())
    OutboxMessage.objects.all().delete()
    with system_scope():
        operation = NodeOperation.objects.get(kind="attempt_start")
    sweeps.sweep_operations(later(5))
    assert ("nodes.run_operation", str(operation.id), "nodes.tests") in sent
    with system_scope():
        assert Job.objects.get(pk=job.pk).state == "placed"
    assert node.voice.sent == []


def test_a_start_that_is_never_delivered_ends_with_a_stop(sent: list[Any]) -> None:
    tenant, _ = make_tenant(), make_node()
    _, alice = make_member(tenant, "alice@example.org")
    submit(alice, tenant)
    cycle_run(now=utc_now())
    sweeps.sweep_operations(later(11 * 60))
    with system_scope():
        assert Attempt.objects.get().state == "stopping"
        kinds = set(NodeOperation.objects.filter(state="queued").values_list("kind", flat=True))
    assert "attempt_stop" in kinds


def test_one_broken_sweep_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch, sent: list[Any]) -> None:
    ran: list[str] = []

    def breaks(now: dt.datetime) -> None:
        raise RuntimeError("bad row")

    monkeypatch.setattr(sweeps, "SWEEPS", (breaks, lambda now: ran.append("next")))
    sweeps.sweep_all()
    assert ran == ["next"]


def test_what_is_kept_for_a_time_is_forgotten() -> None:
    tenant = make_tenant()
    with system_scope():
        for key, age in (("old", 25), ("young", 1)):
            IdempotencyRecord.objects.create(
                tenant_id=tenant.id, actor_id="a", route="r", key=key, body_sha256="", created_at=later(-age * 3600)
            )
    forget_old("sweep", 0.0)
    with system_scope():
        assert [r.key for r in IdempotencyRecord.objects.all()] == ["young"]


def test_every_route_names_a_task_that_exists() -> None:
    import workers.metering
    import workers.nodes
    import workers.notifications
    import workers.scheduling  # noqa: F401
    from portal.celery import app

    missing = {route.task for route in ROUTES.values()} - set(app.tasks)
    assert missing == set()
    connection.close()
