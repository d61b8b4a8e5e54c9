"""Nodes over REST, for operators."""

from apps.core.clock import utc_now
from apps.fleet.services import host_key_offered
from apps.fleet.types import fingerprint
from apps.scheduling.services import cycle_run
from tests.spine_world import HOST_KEY, make_node, submit
from tests.world import World, job_exits, job_runs


def test_add_trust_and_live_on(world: World) -> None:
    api = world.olga.api()
    node = api.post("nodes", {"name": "gpu-9", "address": "10.0.0.9", "password": "used-once"})
    assert (node.status_code, node.json()["state"]) == (201, "enrolling")
    assert b"used-once" not in node.content
    host_key_offered(node_id=node.json()["id"], key_type="ssh-ed25519", key_base64=HOST_KEY, now=utc_now())
    shown = api.get("nodes/gpu-9").json()
    assert shown["offered_fingerprint"] == fingerprint(HOST_KEY)
    wrong = api.post("nodes/gpu-9/trust", {"fingerprint": "SHA256:wrong"})
    assert wrong.status_code == 409
    trusted = api.post(f"nodes/{shown['id']}/trust", {"fingerprint": fingerprint(HOST_KEY)}).json()
    assert (trusted["host_key_fingerprint"], trusted["offered_fingerprint"]) == (fingerprint(HOST_KEY), "")
    events = [e["name"] for e in api.get("nodes/gpu-9/events").json()["results"]]
    assert events == ["node.added", "node.host_key_offered", "node.trusted"]
    retired = api.post("nodes/gpu-9/retire").json()
    assert retired["state"] == "retired"
    gone = api.post("nodes/gpu-9/drain")
    assert gone.status_code == 404
    assert "gpu-9 was retired on" in gone.json()["detail"]
    assert retired["id"] in gone.json()["detail"]
    assert "There is no node gpu-8" in api.get("nodes/gpu-8").json()["detail"]
    assert api.get("nodes").json()["results"] == []
    assert len(api.get("nodes?state=retired").json()["results"]) == 1


def test_bad_values_are_named(world: World) -> None:
    answer = world.olga.api().post("nodes", {"name": "Not Good", "address": "a b", "port": 22})
    assert answer.status_code == 422
    assert sorted(answer.json()["errors"]) == ["address", "name"]


def test_a_node_shows_its_jobs_and_gpus(lasting_world: World) -> None:
    node, api = make_node(), lasting_world.olga.api()
    job = submit(lasting_world.alice.actor, lasting_world.acme, gpus=2)  # type: ignore[arg-type]
    attempt = job_runs(node, job.id)
    shown = api.get("nodes/gpu-01").json()
    assert len(shown["gpus"]) == 8
    assert {(j["job_id"], j["name"], j["tenant"]) for j in shown["jobs"]} == {(str(job.id), "train", "acme")}
    held = {j["gpu_uuid"] for j in shown["jobs"]}
    assert held == {gpu["uuid"] for gpu in shown["gpus"] if gpu["share_free"] == 0}
    assert api.post("nodes/gpu-01/drain", {"reason": "fan"}).json()["state_detail"] == "fan"
    assert api.post("nodes/gpu-01/retire").status_code == 409
    refused = api.post("nodes/gpu-01/maintenance")
    assert refused.status_code == 409
    assert "Drain it first" in refused.json()["detail"]
    job_exits(node, attempt, b"")
    kept = api.post("nodes/gpu-01/maintenance", {"reason": "new fan"}).json()
    assert (kept["state"], kept["state_detail"]) == ("maintenance", "new fan")
    submit(lasting_world.alice.actor, lasting_world.acme)  # type: ignore[arg-type]
    assert cycle_run(now=utc_now()).placed == 0
    assert api.post("nodes/gpu-01/uncordon").json()["state"] == "ready"


def test_pages_of_nodes(lasting_world: World) -> None:
    for number in range(3):
        make_node(f"gpu-{number}", f"10.0.0.{number}")
    api = lasting_world.olga.api()
    first = api.get("nodes?limit=2").json()
    assert ([n["name"] for n in first["results"]], first["next_cursor"]) == (["gpu-0", "gpu-1"], "gpu-1")
    last = api.get("nodes?limit=2&cursor=gpu-1").json()
    assert ([n["name"] for n in last["results"]], last["next_cursor"]) == (["gpu-2"], None)
