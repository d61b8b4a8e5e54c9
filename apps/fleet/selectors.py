"""Reading nodes and GPUs. Nodes belong to the platform, not to a tenant."""

import datetime as dt
import uuid
from collections.abc import Sequence
from typing import Any

from apps.core.access import Actor, Permission, require
from apps.core.errors import NotFound
from apps.core.models import Event
from apps.core.tenancy import system_scope
from apps.fleet.choices import WHOLE_SHARE, NodeState, OperationState
from apps.fleet.models import GpuDevice, Node, NodeOperation
from apps.fleet.types import GpuView, NodeView, fingerprint


def gpu_view(gpu: GpuDevice) -> GpuView:
    """Returns a GPU's row as a value."""
    return GpuView(
        id=gpu.id, uuid=gpu.uuid, pci_address=gpu.pci_address, index=gpu.index, model=gpu.model,
        memory_mib=gpu.memory_mib, health=gpu.health, health_detail=gpu.health_detail,
        share_free=WHOLE_SHARE - gpu.share_used,
    )  # fmt: skip


def _view(node: Node) -> NodeView:
    gpus = sorted(node.gpus.all(), key=lambda g: (g.index is None, g.index, g.pci_address))
    return NodeView(
        id=node.id, name=node.name, address=node.address, port=node.port, ssh_user=node.ssh_user, state=node.state,
        state_detail=node.state_detail, state_changed_at=node.state_changed_at, seq=node.seq,
        host_key_fingerprint=fingerprint(node.host_key) if node.host_key else "",
        offered_fingerprint=fingerprint(node.offered_key) if node.offered_key and not node.host_key else "",
        boot_id=node.boot_id, agent_version=node.agent_version, clock_skew_ms=node.clock_skew_ms,
        last_alive_at=node.last_alive_at, cpu_milli=node.cpu_milli, cpu_milli_used=node.cpu_milli_used,
        memory_mib=node.memory_mib, memory_mib_used=node.memory_mib_used, gpus=tuple(gpu_view(g) for g in gpus),
        inventory=node.inventory, preflight=tuple(node.preflight),
    )  # fmt: skip


def node_list(*, actor: Actor, state: str = "", after: str = "", limit: int = 50) -> list[NodeView]:
    """Returns one page of nodes by name, after the name `after`; retired ones only when asked for."""
    require(actor, Permission.NODE_VIEW)
    with system_scope():
        rows = Node.objects.prefetch_related("gpus").order_by("name")
        rows = rows.filter(state=state) if state else rows.exclude(state=NodeState.RETIRED)
        if after:
            rows = rows.filter(name__gt=after)
        return [_view(node) for node in rows[:limit]]


def node_get(*, actor: Actor, node: str) -> NodeView:
    """Returns a node by name or id; raises NotFound."""
    require(actor, Permission.NODE_VIEW)
    with system_scope():
        return _view(_find(node))


def _find(node: str) -> Node:
    rows = Node.objects.prefetch_related("gpus")
    try:
        found = rows.filter(pk=uuid.UUID(node)).first()
    except ValueError:
        found = rows.filter(name=node).exclude(state=NodeState.RETIRED).first()
    if found is None:
        gone = rows.filter(name=node, state=NodeState.RETIRED).order_by("-state_changed_at").first()
        if gone is not None:
            raise NotFound(
                f"Node {node} was retired on {gone.state_changed_at:%Y-%m-%d}. Its id still shows it: {gone.id}."
            )
        raise NotFound(f"There is no node {node}.")
    return found


def node_events(*, actor: Actor, node_id: uuid.UUID, after_seq: int = 0, limit: int = 200) -> list[dict[str, Any]]:
    """Returns a node's events after a sequence number, in order."""
    require(actor, Permission.NODE_VIEW)
    with system_scope():
        rows = Event.objects.filter(object_id=node_id, seq__gt=after_seq).order_by("seq")[:limit]
        return [{"seq": e.seq, "name": e.name, "data": e.data, "at": e.at} for e in rows]


def node_seqs(*, actor: Actor, node_ids: list[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Returns the newest event number of those of the nodes that exist."""
    require(actor, Permission.NODE_VIEW)
    return dict(Node.objects.filter(pk__in=node_ids).values_list("pk", "seq"))


def node_names(node_ids: set[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Returns the names of nodes."""
    return dict(Node.objects.filter(pk__in=node_ids).values_list("pk", "name"))


def nodes_for_placement() -> list[NodeView]:
    """Returns the nodes that are in the offer, with their GPUs; two queries, inside the caller's scope."""
    rows = Node.objects.filter(state=NodeState.READY).prefetch_related("gpus").order_by("name")
    return [_view(node) for node in rows]


def scans_due() -> list[uuid.UUID]:
    """Returns nodes whose host key has not been seen yet; for the sweep."""
    with system_scope():
        rows = Node.objects.filter(state=NodeState.ENROLLING, host_key="", offered_key="")
        return list(rows.values_list("pk", flat=True)[:100])


def operation_owner(operation_id: uuid.UUID) -> str:
    """Returns the worker that owns the link of the operation's node, or an empty string."""
    with system_scope():
        owners = NodeOperation.objects.filter(pk=operation_id).values_list("node__nodelink__owner", flat=True)
        return owners.first() or ""


def operations_due(*, now: dt.datetime, older_than: dt.datetime, limit: int = 200) -> list[uuid.UUID]:
    """Returns operations that wait since before `older_than` or whose lease ran out; for the sweep."""
    with system_scope():
        waiting = NodeOperation.objects.filter(state=OperationState.QUEUED, state_changed_at__lt=older_than)
        stale = NodeOperation.objects.filter(state=OperationState.CLAIMED, lease_expires_at__lt=now)
        return list((waiting | stale).order_by("created_at").values_list("pk", flat=True)[:limit])


def unreachable_since(*, before: dt.datetime) -> list[uuid.UUID]:
    """Returns nodes that have been unreachable since before the time."""
    with system_scope():
        rows = Node.objects.filter(state=NodeState.UNREACHABLE, state_changed_at__lt=before)
        return list(rows.values_list("pk", flat=True))


def gpu_uuids(gpu_ids: Sequence[uuid.UUID]) -> list[str]:
    """Returns the NVML UUIDs of GPUs, in display order."""
    rows = GpuDevice.objects.filter(pk__in=gpu_ids).order_by("index", "pci_address")
    return list(rows.values_list("uuid", flat=True))


def node_last_alive(node_id: uuid.UUID) -> dt.datetime | None:
    """Returns when the node last gave a sign of life."""
    return Node.objects.filter(pk=node_id).values_list("last_alive_at", flat=True).first()


def operations_waiting_on(node_id: uuid.UUID) -> list[uuid.UUID]:
    """Returns the operations that wait for one node, oldest first."""
    with system_scope():
        rows = NodeOperation.objects.filter(node_id=node_id, state=OperationState.QUEUED)
        return list(rows.order_by("created_at").values_list("pk", flat=True)[:500])


def node_scan_target(node_id: uuid.UUID) -> tuple[str, int] | None:
    """Returns (address, port) of a node whose host key is wanted; None when it is known already."""
    with system_scope():
        rows = Node.objects.filter(pk=node_id, state=NodeState.ENROLLING, host_key="", offered_key="")
        return rows.values_list("address", "port").first()


def operation_object(operation_id: uuid.UUID) -> uuid.UUID | None:
    """Returns what an operation is about."""
    with system_scope():
        return NodeOperation.objects.filter(pk=operation_id).values_list("object_id", flat=True).first()


def inventory_hash(node_id: uuid.UUID) -> str:
    """Returns the hash of the inventory that was taken over last, empty when none was."""
    with system_scope():
        inventory = Node.objects.filter(pk=node_id).values_list("inventory", flat=True).first() or {}
        return str(inventory.get("hash") or "")


def gpu_healths(node_id: uuid.UUID) -> dict[str, str]:
    """Returns the health of each of a node's GPUs, by UUID."""
    with system_scope():
        return dict(GpuDevice.objects.filter(node_id=node_id).values_list("uuid", "health"))


def node_state(node_id: uuid.UUID) -> str:
    """Returns a node's state."""
    with system_scope():
        return Node.objects.filter(pk=node_id).values_list("state", flat=True).first() or ""
