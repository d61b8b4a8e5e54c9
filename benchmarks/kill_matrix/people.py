"""What the portal knows before the first job: an operator's nodes, and one tenant with one user for each step."""

from __future__ import annotations

from apps.accounts.services import membership_set, user_create
from apps.core.access import service_actor
from apps.core.clock import utc_now
from apps.fleet.selectors import node_list
from apps.fleet.services import node_add, portal_key_public
from apps.tenants.services import tenant_create
from benchmarks.kill_matrix.client import Client
from benchmarks.kill_matrix.room import Room, until
from benchmarks.kill_matrix.steps import STEPS

ACTOR = service_actor("kill-matrix")
PASSWORD = "correct horse battery staple"  # noqa: S105 - of an installation that is gone in minutes
READY_WITHIN_S = 120.0


def make_people(room: Room, steps: set[str]) -> dict[str, Client]:
    """Make a tenant and a user per step (a parked transaction holds its tenant's counters) and return their clients."""
    clients = {}
    for name in [name for name in STEPS if name in steps]:
        slug, email = f"t-{name.lower()}", f"{name.lower()}@example.org"
        tenant = tenant_create(actor=ACTOR, slug=slug, name=name, now=utc_now())
        user = user_create(actor=ACTOR, email=email, password=PASSWORD, now=utc_now())
        membership_set(actor=ACTOR, tenant=tenant, user=user, role="member", now=utc_now())
        clients[name] = Client(room.env.public_url, email, PASSWORD)
    return clients


def add_nodes(room: Room) -> None:
    """Put the portal's key on each node and take it into service."""
    for sandbox in room.nodes.values():
        key = f"mkdir -p -m 700 /root/.ssh && echo '{portal_key_public()}' >> /root/.ssh/authorized_keys"
        sandbox.run(["sh", "-c", key])
        node_add(
            actor=ACTOR, name=sandbox.name, address=sandbox.address,
            expected_fingerprint=sandbox.host_key_fingerprint, now=utc_now(),
        )  # fmt: skip
    await_nodes(room)


def await_nodes(room: Room) -> None:
    """Wait until all nodes are in service; raises WaitedInVain."""
    names = {sandbox.name for sandbox in room.nodes.values()}

    def ready() -> bool:
        return names <= {node.name for node in node_list(actor=ACTOR, state="ready")}

    until(ready, "all nodes are ready", seconds=READY_WITHIN_S)
