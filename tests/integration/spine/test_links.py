"""Leases and heartbeats of links: one report that hangs must not take the other nodes with it."""

import datetime as dt
import threading
import uuid
from collections.abc import Iterator

import pytest
from django.db import connection

from apps.core.clock import utc_now
from apps.core.tenancy import system_scope
from apps.fleet.choices import NodeState
from apps.fleet.models import Node, NodeLink
from apps.fleet.services import link_acquire, links, links_renew, node_alive, nodes_mark_silent
from tests.spine_world import PlayedNode, later, make_node

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def two() -> tuple[PlayedNode, PlayedNode]:
    return make_node("gpu-01", "10.0.0.1"), make_node("gpu-02", "10.0.0.2")


@pytest.fixture
def hanging(two: tuple[PlayedNode, PlayedNode]) -> Iterator[PlayedNode]:
    """The first node, whose rows a transaction holds."""
    node = two[0].node
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with system_scope():
            NodeLink.objects.select_for_update().get(pk=node.pk)
            Node.objects.select_for_update().get(pk=node.pk)
            held.set()
            done.wait(30)
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(10)
    yield two[0]
    done.set()
    thread.join()


def expiry(node: PlayedNode) -> dt.datetime:
    return NodeLink.objects.values_list("expires_at", flat=True).get(pk=node.node.pk)


def tokens(*nodes: PlayedNode) -> dict[uuid.UUID, int]:
    return {n.node.pk: n.grant.token for n in nodes}


def test_a_hanging_report_keeps_its_lease_and_the_others_theirs(
    two: tuple[PlayedNode, PlayedNode], hanging: PlayedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "RENEW_WAIT", "50ms")
    before = [expiry(node) for node in two]

    kept = links_renew(owner="tests#1", tokens=tokens(*two))

    assert kept == {two[0].node.pk, two[1].node.pk}
    assert expiry(two[0]) == before[0]
    assert expiry(two[1]) > before[1]


def test_a_lease_that_another_took_is_not_kept(two: tuple[PlayedNode, PlayedNode]) -> None:
    NodeLink.objects.filter(pk=two[0].node.pk).update(expires_at=later(-1))
    assert [grant.node_id for grant in link_acquire(owner="other#1", limit=10)] == [two[0].node.pk]
    assert links_renew(owner="tests#1", tokens=tokens(*two)) == {two[1].node.pk}


def test_a_hanging_report_does_not_stop_the_others_heartbeat(
    two: tuple[PlayedNode, PlayedNode], hanging: PlayedNode
) -> None:
    now = later(5)
    node_alive(tokens=tokens(*two), now=now)
    assert Node.objects.get(pk=two[1].node.pk).last_alive_at == now
    assert Node.objects.get(pk=hanging.node.pk).last_alive_at != now


def test_a_node_whose_heartbeat_was_only_late_is_back(two: tuple[PlayedNode, PlayedNode]) -> None:
    assert set(nodes_mark_silent(now=later(60))) == {node.node.pk for node in two}

    node_alive(tokens=tokens(two[0]), now=utc_now())

    assert Node.objects.get(pk=two[0].node.pk).state == NodeState.READY
    assert Node.objects.get(pk=two[1].node.pk).state == NodeState.UNREACHABLE
