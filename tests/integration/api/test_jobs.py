"""Jobs over REST."""

from tests.world import SPEC, World


def test_submit_show_list_cancel(world: World) -> None:
    api = world.bob.api()
    job = api.post("jobs", SPEC).json()
    assert job["state"] == "pending"
    assert job["waits"]["reason"] == "submitted"
    assert job["spec"]["cpus"] == 1.0
    assert api.get(f"jobs/{job['id']}").json() == job
    assert [j["id"] for j in api.get("jobs").json()["results"]] == [job["id"]]
    ended = api.post(f"jobs/{job['id']}/cancel").json()
    assert (ended["state"], ended["shown_state"], ended["end"]["reason"]) == ("ended", "cancelled", "cancelled")
    names = [e["name"] for e in api.get(f"jobs/{job['id']}/events").json()["results"]]
    assert names == ["job.submitted", "job.cancelled"]
    assert [e["seq"] for e in api.get(f"jobs/{job['id']}/events?after=1").json()["results"]] == [2]
    assert api.post(f"jobs/{job['id']}/requeue").json()["waits"]["reason"] == "requeued"
