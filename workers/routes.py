"""The one table from outbox topics to the tasks that carry them out."""

import dataclasses
import uuid
from collections.abc import Callable

from apps.fleet.selectors import operation_owner


def _of_owner(key: str) -> str | None:
    """Returns the own queue of the worker that holds the node's link; None while nobody does (the sweep comes back)."""
    owner = operation_owner(uuid.UUID(key))
    return own_queue(owner) if owner else None


def own_queue(owner: str) -> str:
    """Returns the queue that only this node worker reads; an owner is `name#incarnation`."""
    return "nodes." + owner.partition("#")[0]


@dataclasses.dataclass(frozen=True)
class Route:
    """A Celery task by name, and its queue: fixed, or found from the message's key."""

    task: str
    queue: str | Callable[[str], str | None]
    once_per_batch: bool = False  # equal wishes of one batch are one call


ROUTES: dict[str, Route] = {
    "schedule.wake": Route("scheduling.cycle", "scheduling", once_per_batch=True),
    "node.scan": Route("nodes.scan_host_key", "nodes", once_per_batch=True),
    "node.link": Route("nodes.kick_links", "nodes", once_per_batch=True),
    "node.run_operation": Route("nodes.run_operation", _of_owner),
    "node.went_down": Route("scheduling.node_went_down", "scheduling"),
    "notification.deliver": Route("notifications.deliver", "notifications"),
}
