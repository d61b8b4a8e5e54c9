"""Jobs over REST."""

from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.spine_world import make_node, submit
from tests.world import SPEC, World, job_exits, job_runs


def test_submit_show_list_cancel(world: World) -> None:
    api = world.bob.api()
    job = api.post("jobs", SPEC).json()
    assert (job["state"], job["waits"]["reason"], job["spec"]["cpus"]) == ("pending", "submitted", 1.0)
    assert api.get(f"jobs/{job['id']}").json() == job
    assert [j["id"] for j in api.get("jobs").json()["results"]] == [job["id"]]
    ended = api.post(f"jobs/{job['id']}/cancel").json()
    assert (ended["state"], ended["shown_state"], ended["end"]["reason"]) == ("ended", "cancelled", "cancelled")
    names = [e["name"] for e in api.get(f"jobs/{job['id']}/events").json()["results"]]
    assert names == ["job.submitted", "job.cancelled"]
    assert [e["seq"] for e in api.get(f"jobs/{job['id']}/events?after=1").json()["results"]] == [2]
    assert api.post(f"jobs/{job['id']}/requeue").json()["waits"]["reason"] == "requeued"


def test_pages_join_without_gap_or_overlap(world: World) -> None:
    api = world.bob.api()
    made = [str(submit(world.bob.actor, world.acme, name=f"j{i}").id) for i in range(7)]  # type: ignore[arg-type]
    seen: list[str] = []
    query = "limit=3"
    while query:
        page = api.get(f"jobs?{query}").json()
        seen += [job["id"] for job in page["results"]]
        query = f"limit=3&cursor={page['next_cursor']}" if page["next_cursor"] else ""
    assert seen == made[::-1]


def test_filters(world: World) -> None:
    api = world.bob.api()
    first = api.post("jobs", {**SPEC, "name": "alpha"}).json()
    api.post("jobs", {**SPEC, "name": "beta"})
    api.post(f"jobs/{first['id']}/cancel")
    ask: Any = lambda query: [job["name"] for job in api.get(f"jobs?{query}").json()["results"]]  # noqa: E731
    assert (ask("state=cancelled"), ask("state=pending"), ask("search=LPH")) == (["alpha"], ["beta"], ["alpha"])
    assert api.get("jobs?state=nonsense").status_code == 422


def test_values_of_the_environment_never_come_back(world: World) -> None:
    api = world.bob.api()
    job = api.post("jobs", {**SPEC, "env": {"TOKEN": "hunter2secret"}})
    texts = [job, api.get("jobs"), api.get(f"jobs/{job.json()['id']}"), api.get(f"jobs/{job.json()['id']}/events")]
    assert not [answer for answer in texts if b"hunter2secret" in answer.content]
    assert job.json()["spec"]["env_names"] == ["TOKEN"]


def test_the_number_of_queries_does_not_grow(lasting_world: World) -> None:
    node, api = make_node(), lasting_world.bob.api()

    def queries(path: str) -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            assert api.get(path).status_code == 200
        return len(seen)

    def one_more() -> str:
        job = submit(lasting_world.alice.actor, lasting_world.acme)  # type: ignore[arg-type]
        job_exits(node, job_runs(node, job.id), b"log")
        return str(job.id)

    first = one_more()
    few = (queries("jobs"), queries(f"jobs/{first}"))
    last = [one_more() for _ in range(4)][-1]
    assert (queries("jobs"), queries(f"jobs/{last}")) == few
    operator = lasting_world.olga.api()
    with CaptureQueriesContext(connection) as one:
        assert len(operator.get("nodes").json()["results"]) == 1
    make_node("gpu-02", "10.0.0.2")
    make_node("gpu-03", "10.0.0.3")
    with CaptureQueriesContext(connection) as three:
        assert len(operator.get("nodes").json()["results"]) == 3
    assert len(one) == len(three)
