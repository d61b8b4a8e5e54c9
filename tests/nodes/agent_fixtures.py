"""Shared by the node tests of agent and link."""

from __future__ import annotations

from portal.sandbox import SandboxNode
from tests.nodes.agent_world import World
from workers.nodeops import AGENT_HOME
from workers.ssh import HostKey, SshTarget, Transport, connect


def host_key(node: SandboxNode) -> HostKey:
    """The key to pin."""
    kind, key = node.host_public_key.split()[:2]
    return HostKey(kind, key)


def dial(node: SandboxNode) -> Transport:
    """Sign in with the cluster's key."""
    target = SshTarget(node.address, node.port, node.user)
    return connect(target, host_key=host_key(node), private_key=node.private_key_path.read_text())


def world_of(node: SandboxNode, image: str) -> World:
    """A world on this node, attached."""
    world = World(lambda: dial(node), home=AGENT_HOME, image=image)
    world.attach()
    return world
