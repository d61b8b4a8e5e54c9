"""The tenancy world: Alice owns acme, Bob works there, Charlie owns rival, Olga operates, Nobody is unknown."""

import dataclasses
import hashlib
import uuid
from typing import Any

from django.test import Client

from apps.accounts.models import User
from apps.accounts.selectors import actor_for
from apps.accounts.services import user_create
from apps.accounts.tokens import tokens_issue
from apps.core.access import Actor
from apps.core.clock import utc_now
from apps.core.tenancy import system_scope
from apps.fleet.models import NodeOperation
from apps.fleet.services import operation_claim
from apps.scheduling.services import cycle_run
from apps.tenants.types import TenantRef
from apps.workloads.models import Attempt
from tests.spine_world import SYSTEM, PlayedNode, make_member, make_tenant

PASSWORD = "correct horse battery"
SPEC: dict[str, Any] = {"name": "train", "image": "localhost/demo:1", "command": ["python", "train.py"]}


@dataclasses.dataclass(frozen=True)
class Person:
    """Somebody who may sign in; `user` is None for the anonymous one."""

    name: str
    user: User | None
    actor: Actor | None

    @property
    def headers(self) -> dict[str, str]:
        """The Authorization header of a fresh token."""
        return {} if self.user is None else {"Authorization": f"Bearer {self.token}"}

    @property
    def token(self) -> str:
        """A fresh access token."""
        assert self.user is not None
        return tokens_issue(self.user).access

    def api(self) -> "Api":
        """Returns a client that asks as this person."""
        return Api(Client(raise_request_exception=True), self.headers)

    def browser(self) -> Client:
        """Returns a client with this person's session."""
        client = Client()
        if self.user is not None:
            client.force_login(self.user, backend="django.contrib.auth.backends.ModelBackend")
        return client


@dataclasses.dataclass(frozen=True)
class Api:
    """A JSON client of /api/v1."""

    client: Client
    headers: dict[str, str]

    def get(self, path: str, **headers: str) -> Any:
        """GET."""
        return self.client.get(f"/api/v1/{path}", headers={**self.headers, **headers})

    def post(self, path: str, body: object = None, **headers: str) -> Any:
        """POST of a JSON body."""
        return self.client.post(
            f"/api/v1/{path}", {} if body is None else body, content_type="application/json",
            headers={**self.headers, **headers},
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class World:
    """Two tenants and five people."""

    acme: TenantRef
    rival: TenantRef
    alice: Person
    bob: Person
    charlie: Person
    olga: Person
    nobody: Person

    @property
    def people(self) -> tuple[Person, ...]:
        """All of them."""
        return (self.alice, self.bob, self.charlie, self.olga, self.nobody)


def make_world(**ceilings: int) -> World:
    """Makes the world; `ceilings` are acme's quota."""
    acme, rival = make_tenant("acme", **ceilings), make_tenant("rival")
    olga = user_create(actor=SYSTEM, email="olga@berth.test", password=PASSWORD, is_operator=True, now=utc_now())
    return World(
        acme=acme,
        rival=rival,
        alice=_person("alice", make_member(acme, "alice@acme.test", "owner")[0]),
        bob=_person("bob", make_member(acme, "bob@acme.test")[0]),
        charlie=_person("charlie", make_member(rival, "charlie@rival.test", "owner")[0]),
        olga=_person("olga", olga),
        nobody=Person("nobody", None, None),
    )


def _person(name: str, user: User) -> Person:
    return Person(name, user, actor_for(user))


def job_runs(node: PlayedNode, job_id: uuid.UUID) -> uuid.UUID:
    """Places a waiting job and reports it running; returns its attempt."""
    cycle_run(now=utc_now())
    with system_scope():
        attempt = Attempt.objects.filter(job_id=job_id).latest("no")
        operation = NodeOperation.objects.get(kind="attempt_start", object_id=attempt.id)
    claim = operation_claim(operation_id=operation.id, nodes=[operation.node_id], now=utc_now())
    assert claim is not None
    node.answer(operation.id, claim.token)
    assert node.status(attempt.id, "running", container_id="c1")
    return attempt.id


def bytes_stand(node: PlayedNode, attempt_id: uuid.UUID, data: bytes, *, stream: int = 0) -> None:
    """Makes bytes of a stream stand in the blob store and its index."""
    node.send(attempt_id, data, stream=stream)


def job_exits(node: PlayedNode, attempt_id: uuid.UUID, log: bytes, outputs: bytes = b"", exit_code: int = 0) -> None:
    """Reports the attempt's end with its log and outputs."""
    streams = {}
    for stream, data in ((0, log), (1, outputs)):
        if data:
            bytes_stand(node, attempt_id, data, stream=stream)
            streams[str(stream)] = {
                "length": len(data), "sha256": hashlib.sha256(data).hexdigest(), "truncated": False,
            }  # fmt: skip
    assert node.status(
        attempt_id, "exited", exit_code=exit_code, signal=None, oom=False, timed_out=False, stopped=None,
        ran_ns=2_500_000_000, streams=streams,
    )  # fmt: skip
