"""Every route of the API against five people: a stranger gets 404 for everything there is."""

import uuid
from typing import Any

from django.db import transaction

from apps.core.clock import utc_now
from apps.fleet.services import host_key_offered, node_add
from apps.fleet.types import fingerprint
from portal.api_urls import urlpatterns
from tests.spine_world import HOST_KEY, SYSTEM, make_node, submit
from tests.world import PASSWORD, SPEC, Person, World, job_exits, job_runs

# answers to Alice (acme's owner), Bob (member), Charlie (owner of another tenant), Olga (operator) and Nobody
SEEN = (200, 200, 404, 404, 401)
MADE = (201, 201, 404, 404, 401)
OWN = (200, 403, 404, 404, 401)
OPERATOR = (404, 404, 404, 200, 401)
OPEN = (200, 200, 200, 200, 200)
REFUSED = (401, 401, 401, 401, 401)

# by route and verb: the body to send and the answers
TABLE: dict[tuple[str, str], tuple[Any, tuple[int, ...]]] = {
    ("auth-token", "post"): ({"email": "alice@acme.test", "password": PASSWORD}, OPEN),
    ("auth-refresh", "post"): ({"refresh": "nonsense"}, REFUSED),
    ("auth-logout", "post"): ({"refresh": "nonsense"}, (204,) * 5),
    ("me", "get"): (None, (200, 200, 200, 200, 401)),
    ("quota", "get"): (None, SEEN),
    ("files", "post"): (b"bytes", MADE),
    ("jobs", "get"): (None, SEEN),
    ("jobs", "post"): (SPEC, MADE),
    ("job", "get"): (None, SEEN),
    ("job-cancel", "post"): (None, OWN),
    ("job-requeue", "post"): (None, OWN),
    ("job-clone", "post"): (None, MADE),
    ("job-events", "get"): (None, SEEN),
    ("job-gpu-readings", "get"): (None, SEEN),
    ("job-usage", "get"): (None, SEEN),
    ("job-log", "get"): (None, SEEN),
    ("job-log-download", "get"): (None, SEEN),
    ("job-outputs", "get"): (None, SEEN),
    ("nodes", "get"): (None, OPERATOR),
    ("nodes", "post"): ({"name": "gpu-09", "address": "10.0.0.9"}, (404, 404, 404, 201, 401)),
    ("node", "get"): (None, OPERATOR),
    ("node-trust", "post"): ({"fingerprint": fingerprint(HOST_KEY)}, OPERATOR),
    ("node-inventory", "post"): (None, OPERATOR),
    ("node-cordon", "post"): (None, OPERATOR),
    ("node-drain", "post"): ({"reason": "repair"}, OPERATOR),
    ("node-maintenance", "post"): ({"reason": "repair"}, (404, 404, 404, 409, 401)),
    ("node-uncordon", "post"): (None, (404, 404, 404, 409, 401)),
    ("node-retire", "post"): (None, OPERATOR),
    ("node-events", "get"): (None, OPERATOR),
    ("api-schema", "get"): (None, OPEN),
    ("api-docs", "get"): (None, OPEN),
}
VERBS = ("get", "post", "put", "patch", "delete")


def registered() -> set[tuple[str, str]]:
    """Returns the routes and verbs that exist."""
    found = set()
    for pattern in urlpatterns:
        view = pattern.callback.cls
        found |= {(str(pattern.name), verb) for verb in VERBS if hasattr(view, verb)}
    return found


def test_every_route_has_its_row() -> None:
    assert registered() == set(TABLE)


class Things:
    """Acme's running job, its ended one, a node in service and one that waits for trust."""

    def __init__(self, world: World) -> None:
        node = make_node()
        self.node = str(node.node.name)
        self.ended = submit(world.alice.actor, world.acme, name="ended").id  # type: ignore[arg-type]
        job_exits(node, job_runs(node, self.ended), b"log\n", b"tar")
        self.running = submit(world.alice.actor, world.acme, name="running").id  # type: ignore[arg-type]
        job_runs(node, self.running)
        new = node_add(actor=SYSTEM, name="gpu-new", address="10.0.0.7", now=utc_now())
        host_key_offered(node_id=new.id, key_type="ssh-ed25519", key_base64=HOST_KEY, now=utc_now())

    def path(self, route: str) -> str:
        """Returns the path of a route about acme's things."""
        pattern = next(str(p.pattern) for p in urlpatterns if p.name == route)
        job = self.running if route == "job-cancel" else self.ended
        node = "gpu-new" if route in ("node-trust", "node-retire") else self.node
        return pattern.replace("<uuid:job_id>", str(job)).replace("<node:node>", node)


def asked(person: Person, verb: str, path: str, body: Any, **headers: str) -> int:
    """Asks inside a transaction that is rolled back, so that every person finds the same world."""
    api = person.api()
    with transaction.atomic():
        if verb == "get":
            answer = api.get(path, **headers)
        elif isinstance(body, bytes):
            answer = api.client.post(
                f"/api/v1/{path}", body, content_type="application/octet-stream", headers=api.headers | headers
            )
        else:
            answer = api.post(path, body, **headers)
        transaction.set_rollback(True)
    return int(answer.status_code)


def test_people(lasting_world: World) -> None:
    world, things = lasting_world, Things(lasting_world)
    acme = {"Berth-Tenant": "acme"}
    got = {
        (route, verb): tuple(asked(person, verb, things.path(route), body, **acme) for person in world.people)
        for (route, verb), (body, _) in TABLE.items()
    }
    assert got == {key: expected for key, (_, expected) in TABLE.items()}


def test_a_strangers_own_tenant_does_not_show_it(lasting_world: World) -> None:
    """Charlie may ask in his own tenant; acme's ids mean nothing there."""
    things = Things(lasting_world)
    of_jobs = {key: body for key, (body, _) in TABLE.items() if key[0] == "job" or key[0].startswith("job-")}
    assert len(of_jobs) == 10
    for (route, verb), body in of_jobs.items():
        assert asked(lasting_world.charlie, verb, things.path(route), body) == 404, route
    stranger = lasting_world.charlie.api()
    assert stranger.get(f"jobs/{things.ended}").json() == stranger.get(f"jobs/{uuid.uuid4()}").json()


def test_an_unknown_tenant_is_like_a_foreign_one(world: World) -> None:
    charlie = world.charlie.api()
    foreign = charlie.get("jobs", **{"Berth-Tenant": "acme"})
    unknown = charlie.get("jobs", **{"Berth-Tenant": "nowhere"})
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.json() == unknown.json()
