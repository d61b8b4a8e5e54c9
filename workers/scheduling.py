"""Tasks of the queue `scheduling`."""

import time
import uuid

from celery import shared_task

from apps.core.clock import utc_now
from apps.scheduling.services import cycle_run
from apps.workloads.services import attempts_lost_with_node
from workers.relay.outbox import drain

_last_cycle_began = 0.0


@shared_task(name="scheduling.cycle")
def cycle(key: str, asked_at: float) -> None:
    """Runs one scheduler cycle, unless one began after this was asked: that one saw it all."""
    global _last_cycle_began
    if asked_at < _last_cycle_began:
        return
    _last_cycle_began = time.time()
    if cycle_run(now=utc_now()).placed:
        drain()  # the operations are on their way without the relay's turn; claims keep the two apart


@shared_task(name="scheduling.node_went_down")
def node_went_down(key: str, asked_at: float) -> None:
    """Ends what ran on a node that was declared down."""
    attempts_lost_with_node(node_id=uuid.UUID(key), detail="the node was declared down", now=utc_now())
