"""Every failure is problem+json, says what to do, and tells nothing it should not."""

from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from redis.exceptions import ConnectionError as RedisAway

from apps.core.rest.throttles import PerUser
from tests.world import SPEC, World


def assert_problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    body: dict[str, Any] = answer.json()
    assert sorted(body) == ["code", "detail", "errors", "status", "title", "type"]
    assert (body["status"], body["code"], body["type"]) == (status, code, f"urn:berth:problem:{code}")
    return body


def test_every_wrong_field_is_named_at_once(world: World) -> None:
    body = {
        "image": "",
        "command": [],
        "gpus": 99,
        "cpus": 0,
        "env": {"A": [1]},
        "typo": 1,
        "files": [{"path": "a"}],
    }
    errors = assert_problem(world.bob.api().post("jobs", body), 422, "invalid_input")["errors"]
    assert sorted(errors) == ["command", "cpus", "env.A", "files.0.sha256", "gpus", "image", "name", "typo"]
    assert errors["typo"] == "There is no such field."


UNSTORABLE: list[dict[str, Any]] = [
    {"name": "a\0b"},
    {"name": "\ud800"},
    {"command": ["a\0b"]},
    {"env": {"A": "\0"}},
    {"memory_mib": 10**40},
    {"image": "UPPER"},
]


@pytest.mark.parametrize("change", UNSTORABLE)
def test_what_the_database_could_not_take_is_refused_before(world: World, change: dict[str, Any]) -> None:
    answer = world.bob.api().post("jobs", {**SPEC, **change})
    errors = assert_problem(answer, 422, "invalid_input")["errors"]
    assert [name.partition(".")[0] for name in errors] == list(change)


def test_malformed_requests(world: World) -> None:
    api = world.bob.api()

    def post(body: str, content_type: str) -> Any:
        return api.client.post("/api/v1/jobs", body, content_type=content_type, headers=api.headers)

    assert_problem(post("{", "application/json"), 400, "parse_error")
    assert_problem(post('{"cpus": Infinity}', "application/json"), 400, "parse_error")
    assert_problem(post("a=1", "text/plain"), 415, "unsupported_media_type")
    assert_problem(api.client.delete("/api/v1/jobs", headers=api.headers), 405, "method_not_allowed")
    assert_problem(api.client.options("/api/v1/jobs", headers=api.headers), 405, "method_not_allowed")
    assert_problem(api.get("nothing-here"), 404, "not_found")
    assert_problem(api.get("nodes/%00"), 404, "not_found")
    assert_problem(api.post("jobs", [1, 2]), 422, "invalid_input")


def test_without_a_token(world: World) -> None:
    answer = world.nobody.api().get("jobs")
    assert_problem(answer, 401, "not_authenticated")
    assert answer["WWW-Authenticate"] == 'Bearer realm="berth"'


def test_conflicts_say_why(world: World) -> None:
    api = world.bob.api()
    job = api.post("jobs", SPEC).json()
    assert "cancel it first" in assert_problem(api.post(f"jobs/{job['id']}/requeue"), 409, "conflict")["detail"]


def test_a_database_that_is_away_is_503(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(**arguments: object) -> None:
        raise OperationalError("the server at 10.1.2.3 closed the connection")

    monkeypatch.setattr("apps.workloads.api.jobs.job_list", away)
    answer = world.bob.api().get("jobs")
    assert "10.1.2.3" not in str(assert_problem(answer, 503, "unavailable"))
    assert answer["Retry-After"] == "2"


def test_a_fault_of_berth_tells_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**arguments: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("apps.workloads.api.jobs.job_list", broken)
    client = Client(raise_request_exception=False)
    answer = client.get("/api/v1/jobs", headers=world.bob.headers)
    assert "secret" not in str(assert_problem(answer, 500, "internal"))


def test_too_many_requests(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PerUser, "rate", "2/min", raising=False)
    api = world.bob.api()
    assert [api.get("me").status_code for _ in range(2)] == [200, 200]
    answer = api.get("me")
    assert_problem(answer, 429, "throttled")
    assert 0 < int(answer["Retry-After"]) <= 60
    assert world.alice.api().get("me").status_code == 200


def test_without_redis_nobody_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*arguments: object, **more: object) -> None:
        raise RedisAway("no")

    monkeypatch.setattr("django.core.cache.backends.redis.RedisCacheClient.get", away)
    assert world.bob.api().get("me").status_code == 200


def test_words_follow_the_language(world: World) -> None:
    api = world.bob.api()
    job = api.post("jobs", SPEC).json()
    chinese = api.get(f"jobs/{job['id']}", **{"Accept-Language": "zh-hans"})
    assert chinese["Content-Language"] == "zh-hans"


def test_json_nested_without_end_is_the_senders_mistake(world: World) -> None:
    answer = Client().post("/api/v1/jobs", "[" * 100_000, content_type="application/json", headers=world.bob.headers)
    assert "nested too deeply" in assert_problem(answer, 400, "parse_error")["detail"]
