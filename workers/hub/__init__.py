"""The hub: the thread in a node worker's process that owns links to nodes and keeps them."""

from workers.hub.hub import Hub

__all__ = ["Hub"]
