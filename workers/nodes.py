"""Tasks of the queue `nodes` and of each node worker's own queue, and the hub that lives in its process."""

import uuid
from typing import Any

from celery import shared_task
from celery.signals import celeryd_after_setup, worker_ready, worker_shutdown

from apps.core.clock import utc_now
from apps.fleet.selectors import node_scan_target
from apps.fleet.services import host_key_offered, scan_failed
from workers.hub import Hub
from workers.routes import own_queue
from workers.ssh import SshError, scan_host_key

_hub: Hub | None = None


@celeryd_after_setup.connect
def _own_queue(sender: str, instance: Any, **kwargs: Any) -> None:
    """A worker of the queue `nodes` also reads its own queue and will keep a hub."""
    global _hub
    if "nodes" in instance.app.amqp.queues.consume_from:
        _hub = Hub(name=sender)
        instance.app.amqp.queues.select_add(own_queue(sender))


@worker_ready.connect
def _start(**kwargs: Any) -> None:
    if _hub is not None:
        _hub.start()


@worker_shutdown.connect
def _stop(**kwargs: Any) -> None:
    if _hub is not None:
        _hub.stop()


@shared_task(name="nodes.scan_host_key")
def scan(key: str, asked_at: float) -> None:
    """Fetches a new node's host key and offers it for confirmation."""
    node_id = uuid.UUID(key)
    target = node_scan_target(node_id)
    if target is None:
        return
    try:
        found = scan_host_key(*target, timeout_s=10)
    except SshError as error:
        scan_failed(node_id=node_id, error=str(error), now=utc_now())
        return
    host_key_offered(node_id=node_id, key_type=found.type, key_base64=found.base64, now=utc_now())


@shared_task(name="nodes.kick_links")
def kick_links(key: str, asked_at: float) -> None:
    """Looks for free links at once instead of at the next tick."""
    if _hub is not None:
        _hub.kick()


@shared_task(name="nodes.run_operation")
def run_operation(key: str, asked_at: float) -> None:
    """Sends one operation over this worker's link to its node."""
    if _hub is not None:
        _hub.run_operation(uuid.UUID(key))
