"""A tenant, a member and a node for tests of the spine; the node's agent is played by calling its reports."""

import dataclasses
import datetime as dt
import time
import uuid
from typing import Any

from apps.accounts.models import User
from apps.accounts.selectors import actor_for
from apps.accounts.services import membership_set, user_create
from apps.core.access import Actor, service_actor
from apps.core.clock import utc_now
from apps.fleet.models import Node
from apps.fleet.services import host_key_offered, inventory_apply, link_acquire, node_add
from apps.fleet.types import LinkGrant, fingerprint
from apps.tenants.services import tenant_create
from apps.tenants.types import TenantRef
from apps.workloads.models import Job
from apps.workloads.services import job_submit
from apps.workloads.types import JobSpec
from workers.hub.reports import Reports
from workers.link.types import Hello, Result, Status

HOST_KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIJq1d0mZ0bJ0WwvPzq9R0m9mXv0o0c0J0J0J0J0J0J0J"
SYSTEM = service_actor("tests")


def make_member(tenant: TenantRef, email: str, role: str = "member") -> tuple[User, Actor]:
    """Returns a new member of the tenant, as a user and as an actor."""
    user = user_create(actor=SYSTEM, email=email, password="correct horse battery", now=utc_now())
    membership_set(actor=SYSTEM, tenant=tenant, user=user, role=role, now=utc_now())
    return user, actor_for(user)


def make_tenant(slug: str = "acme", **ceilings: int) -> TenantRef:
    """Returns a new tenant."""
    return tenant_create(actor=SYSTEM, slug=slug, name=slug.title(), ceilings=ceilings, now=utc_now())


class QuietVoice:
    """Collects what the reports say back."""

    def __init__(self) -> None:
        self.acks: list[tuple[uuid.UUID, int, int]] = []
        self.status_acks: list[tuple[uuid.UUID, int]] = []
        self.sent: list[uuid.UUID] = []

    def run_operation(self, operation_id: uuid.UUID) -> None:
        self.sent.append(operation_id)

    def ack(self, attempt_id: uuid.UUID, stream: int, offset: int) -> None:
        self.acks.append((attempt_id, stream, offset))

    def ack_status(self, attempt_id: uuid.UUID, seq: int) -> None:
        self.status_acks.append((attempt_id, seq))


@dataclasses.dataclass
class PlayedNode:
    """A node whose agent the test plays."""

    node: Node
    grant: LinkGrant
    reports: Reports
    voice: QuietVoice
    boot_id: str = "boot-1"
    seqs: dict[uuid.UUID, int] = dataclasses.field(default_factory=dict)

    def hello(self, attempts: dict[uuid.UUID, str] | None = None) -> None:
        """Says hello with the attempts on record."""
        told = tuple({"attempt": str(a), "state": s} for a, s in (attempts or {}).items())
        self.reports.on_hello(
            Hello(
                protocol=1, version="v1", boot_id=self.boot_id, epoch="e", mono_ns=1, utc_ns=0, inventory_hash="h",
                attempts=told,
            )
        )  # fmt: skip

    def status(self, attempt_id: uuid.UUID, state: str, **data: Any) -> bool:
        """Reports one state of an attempt."""
        self.seqs[attempt_id] = self.seqs.get(attempt_id, 0) + 1
        return self.reports.on_status(
            Status(
                attempt_id=attempt_id, seq=self.seqs[attempt_id], state=state, at_mono_ns=1, at_utc_ns=1,
                boot_id=self.boot_id, data=data,
            )
        )  # fmt: skip

    def answer(
        self, operation_id: uuid.UUID, token: int, *, ok: bool = True, data: dict[str, Any] | None = None
    ) -> None:
        """Answers an operation."""
        error = None if ok else {"code": "bad_args", "message": "no"}
        self.reports.on_result(Result(id=str(operation_id), token=token, ok=ok, error=error, data=data or {}))

    def send(self, attempt_id: uuid.UUID, data: bytes, *, stream: int = 0, offset: int = 0) -> int:
        """Sends bytes of a stream until they are durable; returns the stream's length."""
        self.reports.on_bytes(attempt_id, stream, offset, data)
        deadline = time.monotonic() + 10
        while self.reports._writer(attempt_id, stream).durable < offset + len(data):
            assert time.monotonic() < deadline, "the bytes did not become durable"
            self.reports.flush_late()
            time.sleep(0.01)
        return offset + len(data)


def inventory(name: str, gpus: int = 8, model: str = "NVIDIA H100 80GB HBM3") -> dict[str, Any]:
    """Returns what an agent finds on a node of this kind."""
    return {
        "hash": "h",
        "cpus": 64,
        "memory_mib": 512 * 1024,
        "gpus": [
            {
                "uuid": f"GPU-{name}-{i}",
                "pci": f"0000:{i:02x}:00.0",
                "index": i,
                "model": model,
                "memory_mib": 81559,
                "errors": {},
            }
            for i in range(gpus)
        ],
    }


def make_node(name: str = "gpu-01", address: str = "10.0.0.1", gpus: int = 8) -> PlayedNode:
    """Returns a ready node."""
    node = node_add(actor=SYSTEM, name=name, address=address, expected_fingerprint=fingerprint(HOST_KEY), now=utc_now())
    host_key_offered(node_id=node.id, key_type="ssh-ed25519", key_base64=HOST_KEY, now=utc_now())
    grant = next(g for g in link_acquire(owner="tests#1", limit=100) if g.node_id == node.id)
    voice = QuietVoice()
    played = PlayedNode(node=node, grant=grant, reports=Reports(grant, voice), voice=voice)
    played.hello()
    inventory_apply(node_id=node.id, link_token=grant.token, inventory=inventory(name, gpus), now=utc_now())
    node.refresh_from_db()
    return played


def spec(**changes: Any) -> JobSpec:
    """Returns a small good spec."""
    values: dict[str, Any] = {"name": "train", "image": "localhost/demo:1", "command": ("python", "train.py")}
    return JobSpec(**{**values, **changes})


def submit(actor: Actor, tenant: TenantRef, **changes: Any) -> Job:
    """Submits a small job."""
    return job_submit(actor=actor, tenant=tenant, spec=spec(**changes), now=utc_now())


def put_log(node: PlayedNode, attempt_id: uuid.UUID, data: bytes) -> None:
    """Makes bytes of the log stand in the blob store and its index."""
    node.send(attempt_id, data)


def later(seconds: float) -> dt.datetime:
    """Returns a time from now on."""
    return utc_now() + dt.timedelta(seconds=seconds)
