"""Tenants under load and carelessness: exact quotas, and queries that forget the tenant."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker
from django.core.cache import cache
from django.db import connection

from apps.core.tenancy import tenant_scope
from apps.tenants.models import QuotaUse
from apps.workloads.models import Attempt, Job
from tests.spine_world import submit
from tests.world import SPEC, World, make_world

T = TypeVar("T")


def closing(work: Callable[[], T]) -> T:
    """Runs in a thread of a pool, which must give its connection back."""
    try:
        return work()
    finally:
        connection.close()


def test_fifty_parallel_submits_at_a_quota_of_ten_admit_ten(transactional_db: None) -> None:
    cache.clear()
    world = make_world(jobs=10)
    clients = [world.bob.api() for _ in range(50)]
    gate = threading.Barrier(50)

    def ask(number: int) -> int:
        gate.wait(60)
        return closing(lambda: int(clients[number].post("jobs", {**SPEC, "name": f"j{number}"}).status_code))

    with ThreadPoolExecutor(50) as pool:
        answers = Counter(pool.map(ask, range(50)))
    assert answers == {201: 10, 409: 40}
    with tenant_scope(world.acme.id):
        assert Job.objects.count() == 10
        assert QuotaUse.objects.get(resource="jobs").used == 10


def forgetful() -> tuple[int, int]:
    """Asks for all jobs and attempts there are, without saying for whom."""
    return Job.objects.count(), Attempt.objects.count()


def test_a_query_that_forgets_the_tenant_reads_nothing(lasting_world: World) -> None:
    submit(lasting_world.alice.actor, lasting_world.acme)  # type: ignore[arg-type]
    assert forgetful() == (0, 0)
    with tenant_scope(lasting_world.rival.id):
        assert forgetful() == (0, 0)
        assert Job.objects.filter(tenant_id=lasting_world.acme.id).update(name="stolen") == 0
    with tenant_scope(lasting_world.acme.id):
        assert forgetful() == (1, 0)


def test_under_the_pool_a_scope_does_not_stay_on_a_connection(lasting_world: World) -> None:
    """Threads share the pool's few connections; those that forget the tenant come between those that do not."""
    submit(lasting_world.alice.actor, lasting_world.acme)  # type: ignore[arg-type]

    def work(number: int) -> tuple[int, int]:
        def scoped() -> tuple[int, int]:
            with tenant_scope(lasting_world.acme.id):
                return forgetful()

        return closing(scoped if number % 2 else forgetful)

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(work, range(200))) == [(0, 0), (1, 0)] * 100


@pytest.mark.filterwarnings("ignore")
def test_in_celery_a_forgetful_task_reads_nothing(lasting_world: World) -> None:
    """A real worker over the real broker; the task runs after one that had a tenant, on the same thread."""
    submit(lasting_world.alice.actor, lasting_world.acme)  # type: ignore[arg-type]
    seen: list[tuple[int, int]] = []
    done = threading.Event()
    app = celery_on_this_redis()

    @app.task(name="tests.scoped")  # type: ignore[untyped-decorator]
    def scoped() -> None:
        def work() -> None:
            with tenant_scope(lasting_world.acme.id):
                seen.append(forgetful())

        closing(work)

    @app.task(name="tests.careless")  # type: ignore[untyped-decorator]
    def careless() -> None:
        seen.append(closing(forgetful))
        done.set()

    with start_worker(app, pool="threads", concurrency=1, perform_ping_check=False, queues=["tests"]):
        scoped.apply_async(queue="tests")
        careless.apply_async(queue="tests")
        assert done.wait(30)
    assert seen == [(1, 0), (0, 0)]


def celery_on_this_redis() -> Celery:
    """Returns an application with the settings of Berth's own, apart from it."""
    app = Celery("tests", set_as_current=False)
    app.config_from_object("django.conf:settings", namespace="CELERY")
    return app
