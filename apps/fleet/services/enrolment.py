"""Adding a node: the host key is shown and pinned before anything is sent to it."""

import datetime as dt
import ipaddress
import re
import uuid
from typing import Any

from django.db import IntegrityError, transaction

from apps.audit.services import audit_record
from apps.core import state
from apps.core.access import Actor, Permission, require
from apps.core.crypto import seal
from apps.core.errors import Conflict, InvalidInput, NotFound
from apps.core.outbox import Wish
from apps.core.tenancy import system_scope
from apps.fleet.choices import NodeState
from apps.fleet.models import Node, NodeLink
from apps.fleet.services.links import link_check
from apps.fleet.types import fingerprint

_NAME = re.compile(r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")
_HOST = re.compile(r"^(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$")
_USER = re.compile(r"^[a-z_][a-z0-9_-]{0,31}$")


def _problems(name: str, address: str, port: int, ssh_user: str) -> dict[str, str]:
    errors = {}
    if not _NAME.match(name):
        errors["name"] = "Use lower-case letters, digits and hyphens, at most 63."
    if not _is_address(address):
        errors["address"] = "Give a host name or an IPv4 or IPv6 address, without user or port."
    if not 1 <= port <= 65535:
        errors["port"] = "Give a number from 1 to 65535."
    if not _USER.match(ssh_user):
        errors["ssh_user"] = "Give the login name on the node, such as root."
    return errors


def _is_address(address: str) -> bool:
    try:
        ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return bool(_HOST.match(address)) and not re.fullmatch(r"[\d.]+", address)
    return True


def node_add(
    *,
    actor: Actor,
    name: str,
    address: str,
    port: int = 22,
    ssh_user: str = "root",
    password: str | None = None,
    expected_fingerprint: str = "",
    now: dt.datetime,
) -> Node:
    """Begins enrolment: the worker fetches the host key, then waits for `node_trust`.

    With `expected_fingerprint` (`SHA256:…`, from the node's console) a matching key is trusted at once.
    A password is sealed, used once to install the portal's key, and wiped.
    """
    require(actor, Permission.NODE_MANAGE)
    errors = _problems(name, address, port, ssh_user)
    if expected_fingerprint and not expected_fingerprint.startswith("SHA256:"):
        errors["expected_fingerprint"] = "Give it as ssh-keygen -lf prints it: SHA256:…"
    if errors:
        raise InvalidInput("The node can't be added with these values.", errors=errors)
    node = Node(
        name=name, address=address, port=port, ssh_user=ssh_user, expected_fingerprint=expected_fingerprint,
        state_detail="fetching the host key", state_changed_at=now,
    )  # fmt: skip
    if password:
        node.password_sealed = seal(password.encode(), purpose=f"node.password:{node.id}")
    try:
        with system_scope(), transaction.atomic():
            state.created(node, event="node.added", wishes=[Wish("node.scan", str(node.id))], now=now)
            NodeLink.objects.create(node=node)
            audit_record(
                actor=actor, action="node.add", object_kind="node", object_id=node.id, object_label=name,
                tenant_id=None, after={"address": address, "port": port, "ssh_user": ssh_user}, now=now,
            )  # fmt: skip
    except IntegrityError as error:
        field = "address" if "node_address_once" in str(error) else "name"
        raise InvalidInput(
            f"There is a node with this {field} already.", errors={field: "Retire that node first, or change this."}
        ) from error
    return node


def host_key_offered(*, node_id: uuid.UUID, key_type: str, key_base64: str, now: dt.datetime) -> None:
    """Keeps the key that the node showed; trusts it at once only when its fingerprint was given beforehand."""
    seen = fingerprint(key_base64)
    with system_scope():
        node = Node.objects.select_for_update().filter(pk=node_id, state=NodeState.ENROLLING, host_key="").first()
        if node is None:
            return
        changes: dict[str, Any] = {"offered_key_type": key_type, "offered_key": key_base64}
        if node.expected_fingerprint and node.expected_fingerprint != seen:
            changes["state_detail"] = (
                f"the node shows host key {seen}, but {node.expected_fingerprint} was expected: "
                "either the fingerprint was copied wrongly or this is another machine"
            )
        elif node.expected_fingerprint:
            changes |= {"host_key_type": key_type, "host_key": key_base64, "state_detail": "connecting"}
        else:
            changes["state_detail"] = f"waiting for someone to confirm host key {seen}"
        wishes = [Wish("node.link", str(node_id))] if "host_key" in changes else []
        state.noted(
            Node,
            node_id,
            event="node.host_key_offered",
            data={"fingerprint": seen},
            changes=changes,
            wishes=wishes,
            now=now,
        )


def scan_failed(*, node_id: uuid.UUID, error: str, now: dt.datetime) -> None:
    """Says why the host key could not be fetched; the relay asks again later."""
    with system_scope():
        node = Node.objects.filter(pk=node_id, state=NodeState.ENROLLING, host_key="").first()
        if node is not None and node.state_detail != error:
            state.noted(
                Node, node_id, event="node.scan_failed", data={"error": error}, changes={"state_detail": error}, now=now
            )


def node_trust(*, actor: Actor, node_id: uuid.UUID, fingerprint_seen: str, now: dt.datetime) -> Node:
    """Pins the offered host key when the person confirms exactly its fingerprint."""
    require(actor, Permission.NODE_MANAGE)
    with system_scope():
        node = Node.objects.select_for_update().filter(pk=node_id).first()
        if node is None:
            raise NotFound("There is no such node.")
        if node.host_key:
            raise Conflict("The node's host key is pinned already.")
        if not node.offered_key:
            raise Conflict("The node has not shown a host key yet. Wait a moment.")
        if fingerprint(node.offered_key) != fingerprint_seen:
            raise Conflict("The node shows another key than the one you confirmed. Look at it again.")
        audit_record(
            actor=actor, action="node.trust", object_kind="node", object_id=node.id, object_label=node.name,
            tenant_id=None, after={"fingerprint": fingerprint_seen}, now=now,
        )  # fmt: skip
        changes = {"host_key_type": node.offered_key_type, "host_key": node.offered_key, "state_detail": "connecting"}
        return state.noted(
            Node, node_id, event="node.trusted", data={"fingerprint": fingerprint_seen}, changes=changes,
            wishes=[Wish("node.link", str(node_id))], now=now,
        )  # fmt: skip


def preflight_record(*, node_id: uuid.UUID, link_token: int, checks: list[dict[str, Any]], now: dt.datetime) -> bool:
    """Keeps what the preflight found; returns whether nothing stands in the way."""
    failed = [c["title"] for c in checks if not c["ok"]]
    with system_scope():
        link_check(node_id=node_id, token=link_token)
        changes: dict[str, Any] = {"preflight": checks, "password_sealed": None}
        if failed:
            changes["state_detail"] = "preflight found: " + "; ".join(failed)
        state.noted(Node, node_id, event="node.preflight", data={"failed": failed}, changes=changes, now=now)
    return not failed
