"""The lease that makes one worker process the owner of a node's connection.

Leases use PostgreSQL's clock; the token only grows, and a report under an old token changes nothing.
"""

import uuid
from typing import Any

from django.db import OperationalError, connection
from psycopg import sql
from psycopg.errors import LockNotAvailable

from apps.core.crypto import unseal
from apps.core.tenancy import system_scope
from apps.fleet.choices import LINKED
from apps.fleet.models import Node, NodeLink
from apps.fleet.types import LinkGrant

LEASE_S = 10
RENEW_WAIT = "2s"


class StaleLink(Exception):
    """The link's token is not the current one: another worker owns the node."""


def link_acquire(*, owner: str, limit: int) -> list[LinkGrant]:
    """Takes free links of trusted nodes for this worker, at most `limit`; each with a new token."""
    with system_scope(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE fleet_nodelink l SET owner = %s, token = token + 1, expires_at = now() + make_interval(secs => %s),"
            " connected_at = NULL WHERE l.node_id IN (SELECT k.node_id FROM fleet_nodelink k JOIN fleet_node n"
            " ON n.id = k.node_id WHERE k.expires_at < now() AND n.host_key <> '' AND n.state = ANY(%s)"
            " ORDER BY k.expires_at LIMIT %s FOR UPDATE OF k SKIP LOCKED) RETURNING node_id, token",
            [owner, LEASE_S, [str(s) for s in LINKED], limit],
        )
        tokens = dict(cursor.fetchall())
        return [_grant(node, tokens[node.pk]) for node in Node.objects.filter(pk__in=tokens)]


def _grant(node: Node, token: int) -> LinkGrant:
    password = None
    if node.password_sealed is not None:
        password = unseal(node.password_sealed, purpose=f"node.password:{node.id}").decode()
    return LinkGrant(
        node_id=node.id, name=node.name, address=node.address, port=node.port, ssh_user=node.ssh_user,
        host_key_type=node.host_key_type, host_key=node.host_key, token=token, password=password,
    )  # fmt: skip


def links_renew(*, owner: str, tokens: dict[uuid.UUID, int]) -> set[uuid.UUID]:
    """Prolongs the leases that are still this worker's; returns those nodes. The others must be let go.

    A report that hangs in its transaction holds its own link's row only: the other leases are prolonged without it.
    """
    if not tokens:
        return set()
    try:
        return _renew(owner, tokens, "")
    except OperationalError as error:
        if not isinstance(error.__cause__, LockNotAvailable):
            raise
    return _renew(owner, tokens, "SKIP LOCKED")


_MINE = sql.SQL(
    " FROM fleet_nodelink l JOIN unnest(%s::uuid[], %s::bigint[]) AS mine(node_id, token)"
    " ON l.node_id = mine.node_id AND l.token = mine.token JOIN fleet_node n ON n.id = l.node_id"
    " WHERE l.owner = %s AND n.state <> 'retired'"
)
_HELD = sql.SQL("SELECT l.node_id{mine}").format(mine=_MINE)
_PROLONG = (
    "UPDATE fleet_nodelink SET expires_at = now() + make_interval(secs => %s) WHERE node_id IN"
    " (SELECT l.node_id{mine} ORDER BY l.node_id FOR NO KEY UPDATE OF l {wait})"
)


def _renew(owner: str, tokens: dict[uuid.UUID, int], wait: str) -> set[uuid.UUID]:
    mine: list[Any] = [list(tokens), list(tokens.values()), owner]
    with system_scope(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [RENEW_WAIT])
        cursor.execute(sql.SQL(_PROLONG).format(mine=_MINE, wait=sql.SQL(wait)), [LEASE_S, *mine])
        cursor.execute(_HELD, mine)  # a locked row is ours as long as its token is
        return {row[0] for row in cursor.fetchall()}


def link_release(*, node_id: uuid.UUID, token: int, retry_in_s: float = 0) -> None:
    """Gives the lease back, so that any worker may take it after `retry_in_s` seconds."""
    with system_scope(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE fleet_nodelink SET owner = '', expires_at = now() + make_interval(secs => %s)"
            " WHERE node_id = %s AND token = %s",
            [retry_in_s, node_id, token],
        )


def links_release_of(*, name: str) -> None:
    """Frees what an earlier process of this worker's name held; its tokens are dead with the next owner's."""
    with system_scope(), connection.cursor() as cursor:
        cursor.execute("UPDATE fleet_nodelink SET owner = '', expires_at = now() WHERE owner LIKE %s", [name + "#%"])


def link_failed(*, node_id: uuid.UUID, token: int, error: str, retry_in_s: float) -> None:
    """Keeps why the connection failed, shows it on a node that enrols, and frees the lease for a later try."""
    with system_scope():
        NodeLink.objects.filter(node_id=node_id, token=token).update(last_error=error)
        Node.objects.filter(pk=node_id, state="enrolling").update(state_detail=error)
    link_release(node_id=node_id, token=token, retry_in_s=retry_in_s)


def link_check(*, node_id: uuid.UUID, token: int) -> None:
    """Raises StaleLink unless the token is current; holds the lease row until the transaction ends."""
    if not NodeLink.objects.select_for_update(no_key=True).filter(node_id=node_id, token=token).exists():
        raise StaleLink(f"link token {token} of node {node_id} is no longer current")
