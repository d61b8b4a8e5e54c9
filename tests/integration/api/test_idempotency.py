"""Idempotency-Key: one request, one job, one answer."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from apps.core.clock import utc_now
from apps.core.idempotency import KEPT
from apps.core.models import IdempotencyRecord
from apps.core.tenancy import system_scope
from apps.workloads import api
from apps.workloads.models import Job
from tests.world import SPEC, World

KEY = {"Idempotency-Key": "k1"}


def jobs() -> int:
    with system_scope():
        return Job.objects.count()


def records() -> int:
    with system_scope():
        return IdempotencyRecord.objects.count()


def test_a_repeat_gets_the_same_bytes(world: World) -> None:
    client = world.bob.api()
    first, second = client.post("jobs", SPEC, **KEY), client.post("jobs", SPEC, **KEY)
    assert first.status_code == second.status_code == 201
    assert first.content == second.content
    assert jobs() == 1
    assert client.get(f"jobs/{first.json()['id']}").json() == first.json()


def test_a_key_of_yesterday_is_free_again(world: World) -> None:
    client = world.bob.api()
    first = client.post("jobs", SPEC, **KEY)
    with system_scope():
        IdempotencyRecord.objects.update(created_at=utc_now() - KEPT)
    second = client.post("jobs", {**SPEC, "name": "other"}, **KEY)
    assert second.status_code == 201
    assert second.json()["id"] != first.json()["id"]
    assert client.post("jobs", {**SPEC, "name": "other"}, **KEY).content == second.content
    assert (jobs(), records()) == (2, 1)


def test_another_body_is_refused(world: World) -> None:
    client = world.bob.api()
    client.post("jobs", SPEC, **KEY)
    other = client.post("jobs", {**SPEC, "name": "other"}, **KEY)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert jobs() == 1


def test_keys_are_a_persons_own(world: World) -> None:
    world.bob.api().post("jobs", SPEC, **KEY)
    world.alice.api().post("jobs", SPEC, **KEY)
    assert jobs() == 2


def test_keys_are_a_routes_own(world: World) -> None:
    client = world.bob.api()
    job = client.post("jobs", {**SPEC, "env": {"SEED": "7"}}, **KEY).json()
    clone = client.post(f"jobs/{job['id']}/clone", {"name": "again"}, **KEY)
    assert clone.status_code == 201
    assert (clone.json()["name"], clone.json()["spec"]["env_names"]) == ("again", ["SEED"])
    assert client.post(f"jobs/{job['id']}/clone", {"name": "again"}, **KEY).content == clone.content


@pytest.mark.parametrize("key", ["", "with space", "x" * 256, "ü"])
def test_an_unusable_key_is_named(world: World, key: str) -> None:
    answer = world.bob.api().post("jobs", SPEC, **{"Idempotency-Key": key})
    assert answer.status_code == 422
    assert "Idempotency-Key" in answer.json()["errors"]


def test_a_failure_leaves_no_record(world: World) -> None:
    client = world.bob.api()
    missing = {**SPEC, "files": [{"path": "a", "sha256": "0" * 64}]}
    assert client.post("jobs", missing, **KEY).status_code == 422
    assert records() == 0
    assert client.post("jobs", SPEC, **KEY).status_code == 201


def test_a_twin_waits_for_the_first(lasting_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request stands in mid-work when the second comes; both get one job."""
    inside, go_on = threading.Event(), threading.Event()
    submit = api.jobs.job_submit  # type: ignore[attr-defined]

    def slow(**arguments: Any) -> Any:
        job = submit(**arguments)
        inside.set()
        assert go_on.wait(20)
        return job

    monkeypatch.setattr(api.jobs, "job_submit", slow)
    clients = [lasting_world.bob.api() for _ in range(2)]

    def ask(client: Any) -> bytes:
        try:
            answer = client.post("jobs", SPEC, **KEY)
            assert answer.status_code == 201
            return bytes(answer.content)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, clients[0])
        assert inside.wait(20)
        second = pool.submit(ask, clients[1])
        wait_for_a_lock()
        go_on.set()
        assert first.result(20) == second.result(20)
    assert jobs() == 1


def test_a_twin_of_a_long_request_is_told_to_come_back(lasting_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.core.idempotency.TWIN_WAIT", "50ms")
    inside, go_on = threading.Event(), threading.Event()
    submit = api.jobs.job_submit  # type: ignore[attr-defined]

    def slow(**arguments: Any) -> Any:
        inside.set()
        assert go_on.wait(20)
        return submit(**arguments)

    monkeypatch.setattr(api.jobs, "job_submit", slow)
    clients = [lasting_world.bob.api() for _ in range(2)]

    def ask() -> int:
        try:
            return int(clients[0].post("jobs", SPEC, **KEY).status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask)
        assert inside.wait(20)
        twin = clients[1].post("jobs", SPEC, **KEY)
        go_on.set()
        assert first.result(20) == 201
    assert (twin.status_code, twin.json()["code"]) == (409, "idempotency_in_flight")
    assert twin["Content-Type"] == "application/problem+json"


def wait_for_a_lock() -> None:
    """Returns once a connection of this database waits for another's transaction."""
    for _ in range(1000):
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock' AND pg_sleep(0.02) IS NOT NULL"
            )
            if cursor.fetchone()[0]:
                return
    raise AssertionError("no connection waits")
