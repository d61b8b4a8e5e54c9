"""Inventory on demand, and what it says has changed."""

import pytest

from apps.audit.models import AuditEntry
from apps.core.clock import utc_now
from apps.core.errors import Conflict, Forbidden
from apps.core.models import Event
from apps.core.tenancy import system_scope
from apps.fleet.models import NodeOperation
from apps.fleet.services import inventory_apply, node_inventory, nodes_mark_silent
from apps.fleet.services.inventory import inventory_changes
from apps.fleet.story import event_text
from tests.spine_world import SYSTEM, inventory, later, make_member, make_node, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def test_asked_once_audited_and_refused_to_members() -> None:
    node = make_node()
    _, alice = make_member(make_tenant(), "alice@example.org", "owner")
    with pytest.raises(Forbidden):
        node_inventory(actor=alice, node_id=node.node.id, now=utc_now())
    first = node_inventory(actor=SYSTEM, node_id=node.node.id, now=utc_now())
    assert node_inventory(actor=SYSTEM, node_id=node.node.id, now=utc_now()) == first
    with system_scope():
        assert NodeOperation.objects.filter(kind="inventory", state="queued").count() == 1
        assert AuditEntry.objects.filter(action="node.inventory_asked").count() == 2


def test_a_silent_node_can_not_be_asked() -> None:
    node = make_node()
    nodes_mark_silent(now=later(60))
    with pytest.raises(Conflict):
        node_inventory(actor=SYSTEM, node_id=node.node.id, now=utc_now())


def test_the_difference_stands_in_the_events() -> None:
    node = make_node()
    found = {**inventory("gpu-01", gpus=7), "nvidia_driver": "590.48.01"}
    found["gpus"][0]["model"] = "NVIDIA H200"
    inventory_apply(node_id=node.node.id, link_token=node.grant.token, inventory=found, now=utc_now())
    with system_scope():
        event = Event.objects.filter(name="node.inventory").order_by("-seq")[0]
    text = event_text({"name": event.name, "data": event.data})
    assert "node nvidia_driver: – → 590.48.01" in text
    assert "GPU-gpu-01-0 model: NVIDIA H100 80GB HBM3 → NVIDIA H200" in text
    assert "GPU-gpu-01-7 gpu: NVIDIA H100 80GB HBM3 → –" in text


def test_a_first_inventory_and_an_equal_one_differ_in_nothing() -> None:
    assert inventory_changes({}, inventory("a")) == []
    assert inventory_changes(inventory("a"), inventory("a")) == []
