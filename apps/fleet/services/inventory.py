"""Taking inventory on demand, and what differs from the last one."""

import datetime as dt
import uuid
from collections.abc import Mapping
from typing import Any

from apps.audit.services import audit_record
from apps.core.access import Actor, Permission, require
from apps.core.errors import Conflict, NotFound
from apps.core.tenancy import system_scope
from apps.fleet.choices import IN_SERVICE, OperationKind
from apps.fleet.models import Node
from apps.fleet.services.operations import operation_create

_VALID_FOR = dt.timedelta(minutes=5)
_MOST = 50
_OF_HOST = ("kernel", "nvidia_driver", "cuda", "cpus", "memory_mib", "disk_total_mib", "podman", "runtime")
_OF_GPU = ("model", "memory_mib", "pci", "power_limit_watts")


def node_inventory(*, actor: Actor, node_id: uuid.UUID, now: dt.datetime) -> uuid.UUID:
    """Asks a node in service what it has; its answer changes the node within seconds. Returns the operation."""
    require(actor, Permission.NODE_MANAGE)
    with system_scope():
        node = Node.objects.filter(pk=node_id).first()
        if node is None:
            raise NotFound("There is no such node.")
        if node.state not in IN_SERVICE:
            raise Conflict(f"The node is {node.state}: its agent can't be asked now.")
        operation = inventory_ask(node_id=node_id, now=now)
        audit_record(
            actor=actor, action="node.inventory_asked", object_kind="node", object_id=node_id, object_label=node.name,
            tenant_id=None, before={}, after={}, now=now,
        )  # fmt: skip
        return operation


def inventory_ask(*, node_id: uuid.UUID, now: dt.datetime) -> uuid.UUID:
    """Has a node's agent take inventory, in the open transaction or one of its own; returns the operation."""
    with system_scope():
        return operation_create(
            node_id=node_id, kind=OperationKind.INVENTORY, object_id=node_id, args={}, valid_for=_VALID_FOR, now=now
        )


def inventory_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What differs: {of, field, before, after}, GPUs by UUID; nothing for a node's first inventory."""
    if not before:
        return []
    pairs = [("node", name, before.get(name), after.get(name)) for name in _OF_HOST]
    old, new = _gpus(before), _gpus(after)
    for gpu in sorted(old.keys() | new.keys()):
        if gpu not in old or gpu not in new:
            pairs.append((gpu, "gpu", old.get(gpu, {}).get("model"), new.get(gpu, {}).get("model")))
        else:
            pairs += [(gpu, name, old[gpu].get(name), new[gpu].get(name)) for name in _OF_GPU]
    changed = [{"of": of, "field": field, "before": a, "after": b} for of, field, a, b in pairs if a != b]
    return changed[:_MOST]


def _gpus(inventory: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {str(gpu["uuid"]): gpu for gpu in inventory.get("gpus") or [] if gpu.get("uuid")}
