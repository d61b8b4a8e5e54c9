"""A node's life after it was trusted: greeting, heartbeat, silence, inventory, cordon and retirement."""

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Q

from apps.audit.services import audit_record
from apps.core import state
from apps.core.access import Actor, Permission, require
from apps.core.errors import Conflict, NotFound
from apps.core.outbox import Wish
from apps.core.tenancy import system_scope
from apps.fleet.choices import IN_SERVICE, GpuHealth, NodeState
from apps.fleet.models import GpuDevice, Node, NodeLink
from apps.fleet.services.inventory import inventory_changes
from apps.fleet.services.links import link_check

SILENT_AFTER = dt.timedelta(seconds=15)


def node_greeted(
    *, node_id: uuid.UUID, link_token: int, boot_id: str, version: str, epoch: str, skew_ms: int, now: dt.datetime
) -> str:
    """Notes an agent's hello and brings a silent node back to where it stood; returns the boot id known before."""
    with system_scope():
        link_check(node_id=node_id, token=link_token)
        NodeLink.objects.filter(node_id=node_id).update(connected_at=now, last_error="")
        node = Node.objects.select_for_update().get(pk=node_id)
        before = node.boot_id
        changes: dict[str, Any] = {
            "boot_id": boot_id, "agent_version": version, "agent_epoch": epoch,
            "clock_skew_ms": skew_ms, "last_alive_at": now,
        }  # fmt: skip
        data = {"boot_id": boot_id, "epoch": epoch, "rebooted": bool(before) and before != boot_id}
        if data["rebooted"]:  # what its kernel says of this boot comes with the first readings
            GpuDevice.objects.filter(node=node, health=GpuHealth.FAILING).update(health=GpuHealth.OK, health_detail="")
        if node.state in (NodeState.UNREACHABLE, NodeState.DOWN):
            _back(node, data, changes, now)
        else:
            state.noted(Node, node_id, event="node.connected", data=data, changes=changes, now=now)
        return before


def _back(node: Node, data: dict[str, Any], changes: dict[str, Any], now: dt.datetime) -> None:
    """Brings a silent node back to where it stood."""
    state.transition(
        Node, node.id, expect=[node.state], to=node.state_before_loss or NodeState.READY, event="node.reachable",
        data=data, changes={**changes, "state_before_loss": "", "state_detail": ""},
        wishes=[Wish("schedule.wake", "all")], now=now,
    )  # fmt: skip


def node_alive(*, tokens: dict[uuid.UUID, int], now: dt.datetime) -> None:
    """Moves the heartbeat of the nodes whose links are current, in one statement; no event, it would be noise.

    A node that only seemed silent, because the portal could not write, is back with it: its link never ended, so no
    greeting will come.
    """
    current = Q()
    for node_id, token in tokens.items():
        current |= Q(pk=node_id, nodelink__token=token)
    if tokens:
        with system_scope():
            # one that another transaction holds is heard again in a moment
            held = Node.objects.select_for_update(skip_locked=True, no_key=True, of=("self",)).filter(current)
            ids = list(held.values_list("pk", flat=True))
            Node.objects.filter(pk__in=ids).update(last_alive_at=now)
            for node in Node.objects.filter(pk__in=ids, state=NodeState.UNREACHABLE):
                _back(node, {}, {}, now)


def nodes_mark_silent(*, now: dt.datetime) -> list[uuid.UUID]:
    """Marks nodes without a heartbeat as unreachable: reversible, their jobs go on. Returns them."""
    with system_scope():
        silent = list(
            Node.objects.filter(state__in=IN_SERVICE, last_alive_at__lt=now - SILENT_AFTER).values_list("pk", "state")
        )
        for node_id, before in silent:
            state.transition(
                Node, node_id, expect=[before], to=NodeState.UNREACHABLE, event="node.unreachable",
                changes={"state_before_loss": before, "state_detail": "no sign of life from the agent"}, now=now,
            )  # fmt: skip
    return [node_id for node_id, _ in silent]


def node_mark_down(*, node_id: uuid.UUID, reason: str, now: dt.datetime) -> None:
    """Declares an unreachable node down: what ran there counts as lost. The workers' routes end its attempts."""
    with system_scope():
        state.transition(
            Node, node_id, expect=[NodeState.UNREACHABLE], to=NodeState.DOWN, event="node.down",
            data={"reason": reason}, changes={"state_detail": reason},
            wishes=[Wish("node.went_down", str(node_id))], now=now,
        )  # fmt: skip


def _act(
    actor: Actor, node_id: uuid.UUID, verb: str, expect: Iterable[str], to: str, detail: str, now: dt.datetime
) -> Node:
    require(actor, Permission.NODE_MANAGE)
    with system_scope():
        node = Node.objects.filter(pk=node_id).first()
        if node is None:
            raise NotFound("There is no such node.")
        row = state.transition(
            Node, node_id, expect=expect, to=to, event=f"node.{verb}", changes={"state_detail": detail},
            wishes=[Wish("schedule.wake", "all")], now=now,
        )  # fmt: skip
        audit_record(
            actor=actor, action=f"node.{verb}", object_kind="node", object_id=node_id, object_label=node.name,
            tenant_id=None, before={"state": node.state}, after={"state": to}, now=now,
        )  # fmt: skip
        return row


def node_cordon(*, actor: Actor, node_id: uuid.UUID, reason: str = "", now: dt.datetime) -> Node:
    """Takes the node out of the offer; what runs goes on."""
    expect = [NodeState.READY, NodeState.DRAINING, NodeState.MAINTENANCE]
    return _act(actor, node_id, "cordoned", expect, NodeState.CORDONED, reason, now)


def node_uncordon(*, actor: Actor, node_id: uuid.UUID, now: dt.datetime) -> Node:
    """Puts the node back into the offer."""
    expect = [NodeState.CORDONED, NodeState.DRAINING, NodeState.MAINTENANCE]
    return _act(actor, node_id, "uncordoned", expect, NodeState.READY, "", now)


def node_drain(*, actor: Actor, node_id: uuid.UUID, reason: str = "", now: dt.datetime) -> Node:
    """Takes the node out of the offer and waits for what runs to end."""
    return _act(actor, node_id, "draining", [NodeState.READY, NodeState.CORDONED], NodeState.DRAINING, reason, now)


def node_maintenance(*, actor: Actor, node_id: uuid.UUID, reason: str = "", now: dt.datetime) -> Node:
    """Gives the node to whoever works on it, until it is uncordoned; refused while anything runs there."""
    _refuse_busy(node_id)
    expect = [NodeState.READY, NodeState.CORDONED, NodeState.DRAINING]
    return _act(actor, node_id, "in_maintenance", expect, NodeState.MAINTENANCE, reason, now)


def _refuse_busy(node_id: uuid.UUID) -> None:
    with system_scope():
        busy = Q(cpu_milli_used__gt=0) | Q(gpus__share_used__gt=0)
        if Node.objects.filter(busy, pk=node_id).exists():
            raise Conflict("Jobs still run on this node. Drain it first and wait for them to end.")


def node_retire(*, actor: Actor, node_id: uuid.UUID, now: dt.datetime) -> Node:
    """Takes the node out of service for good; refused while anything runs there."""
    _refuse_busy(node_id)
    expect = [NodeState.ENROLLING, NodeState.CORDONED, NodeState.MAINTENANCE, NodeState.UNREACHABLE, NodeState.DOWN]
    node = _act(actor, node_id, "retired", expect, NodeState.RETIRED, "", now)
    with system_scope():
        # its GPUs may come back in another chassis
        GpuDevice.objects.filter(node_id=node_id, share_used=0).update(health=GpuHealth.MISSING)
    return node


def inventory_apply(*, node_id: uuid.UUID, link_token: int, inventory: dict[str, Any], now: dt.datetime) -> None:
    """Takes over what the agent found, by GPU UUID; a node that enrols with a clean preflight becomes ready."""
    with system_scope():
        link_check(node_id=node_id, token=link_token)
        node = Node.objects.select_for_update().get(pk=node_id)
        failing = set(GpuDevice.objects.filter(node=node, health=GpuHealth.FAILING).values_list("uuid", flat=True))
        seen = [_gpu_upsert(node, gpu, failing) for gpu in inventory.get("gpus", []) if gpu.get("uuid")]
        GpuDevice.objects.filter(node=node).exclude(uuid__in=seen).update(
            health=GpuHealth.MISSING, health_detail="not in the last inventory"
        )
        changes: dict[str, Any] = {
            "inventory": inventory,
            "cpu_milli": int(inventory.get("cpus") or 0) * 1000,
            "memory_mib": int(inventory.get("memory_mib") or 0),
        }
        data: dict[str, Any] = {"gpus": len(seen), "changes": inventory_changes(node.inventory, inventory)}
        clean = all(check["ok"] for check in node.preflight)
        wishes = [Wish("schedule.wake", "all")]
        if node.state == NodeState.ENROLLING and clean:
            changes["state_detail"] = ""
            state.transition(
                Node, node_id, expect=[NodeState.ENROLLING], to=NodeState.READY, event="node.ready",
                data=data, changes=changes, wishes=wishes, now=now,
            )  # fmt: skip
        else:
            state.noted(Node, node_id, event="node.inventory", data=data, changes=changes, wishes=wishes, now=now)


def _gpu_upsert(node: Node, gpu: dict[str, Any], failing: set[str]) -> str:
    errors = gpu.get("errors") or {}
    lost = next((str(reason) for reason in errors.values() if "lost" in str(reason).lower()), "")
    health = {"health": GpuHealth.LOST if lost else GpuHealth.OK, "health_detail": lost[:255]}
    GpuDevice.objects.update_or_create(
        uuid=gpu["uuid"],
        defaults={
            "node": node,
            "pci_address": gpu.get("pci") or "",
            "index": gpu.get("index"),
            "model": gpu.get("model") or "unknown",
            "memory_mib": int(gpu.get("memory_mib") or 0),
            **({} if gpu["uuid"] in failing else health),  # only a reboot clears what the kernel has said
        },
    )
    return str(gpu["uuid"])


def gpu_health_set(*, node_id: uuid.UUID, gpu_uuid: str, health: str, detail: str, now: dt.datetime) -> None:
    """Takes one GPU out of the offer, or back in; its neighbours go on."""
    with system_scope():
        changed = GpuDevice.objects.filter(node_id=node_id, uuid=gpu_uuid).exclude(
            health__in=[health, GpuHealth.FAILING]
        )
        if changed.update(health=health, health_detail=detail[:255]):
            state.noted(
                Node, node_id, event="node.gpu_health", data={"gpu": gpu_uuid, "health": health, "detail": detail},
                wishes=[Wish("schedule.wake", "all")], now=now,
            )  # fmt: skip


def gpus_fail(*, node_id: uuid.UUID, faults: Mapping[str, str], now: dt.datetime) -> list[str]:
    """Takes GPUs out of the offer until the node reboots, by PCI address (00000000:9B:00.0); returns the new ones."""
    taken = []
    with system_scope():
        for gpu in GpuDevice.objects.filter(node_id=node_id).exclude(health=GpuHealth.FAILING):
            detail = faults.get(_pci(gpu.pci_address), "")[:255]
            if not detail:
                continue
            GpuDevice.objects.filter(pk=gpu.pk).update(health=GpuHealth.FAILING, health_detail=detail)
            state.noted(
                Node, node_id, event="node.gpu_health",
                data={"gpu": gpu.uuid, "health": GpuHealth.FAILING.value, "detail": detail},
                wishes=[Wish("schedule.wake", "all")], now=now,
            )  # fmt: skip
            taken.append(gpu.uuid)
    return taken


def _pci(address: str) -> str:
    """The address as NVML writes it, with a domain of eight digits."""
    domain, _, rest = address.partition(":")
    return f"{domain:0>8}:{rest}".upper()
