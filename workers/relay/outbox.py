"""From outbox rows to Celery, at least once: a row goes only after the broker has its message."""

import time

import structlog
from celery import Celery
from django.db import connection

from apps.core.failpoints import failpoint
from apps.core.tenancy import system_scope
from workers import points
from workers.routes import ROUTES

log = structlog.get_logger(__name__)

_producer = Celery("berth-relay")
_producer.config_from_object("django.conf:settings", namespace="CELERY")

BATCH = 200
CLAIM_S = 10
"""A relay that dies between claim and delivery delays its rows by this much, and repeats them."""


def _claim() -> list[tuple[int, str, str]]:
    """Claims due rows with SKIP LOCKED (an id cursor loses rows of slower transactions)."""
    with system_scope(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE core_outboxmessage SET attempts = attempts + 1, not_before = now() + make_interval(secs => %s)"
            " WHERE id IN (SELECT id FROM core_outboxmessage WHERE not_before <= now() ORDER BY id LIMIT %s"
            " FOR UPDATE SKIP LOCKED) RETURNING id, topic, key",
            [CLAIM_S, BATCH],
        )
        return sorted(cursor.fetchall())


def _delete(ids: list[int]) -> None:
    with system_scope(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM core_outboxmessage WHERE id = ANY(%s)", [ids])


def drain() -> int:
    """Hands on one batch of due wishes; returns how many rows it held. Raises what the broker raises."""
    rows = _claim()
    if not rows:
        return 0
    seen: set[tuple[str, str]] = set()
    for _, topic, key in rows:
        if topic == "node.run_operation":
            failpoint("S6", points.of_operation(key))
        else:
            failpoint("S3", topic)
        route = ROUTES.get(topic)
        if route is None:
            log.error("outbox.unknown_topic", topic=topic, key=key)
        elif (topic, key) not in seen or not route.once_per_batch:
            seen.add((topic, key))
            queue = route.queue if isinstance(route.queue, str) else route.queue(key)
            if queue is not None:
                send(route.task, key, queue)
    _delete([row_id for row_id, _, _ in rows])
    return len(rows)


def send(task: str, key: str, queue: str) -> None:
    """Puts one task on a queue; it dies unread after a minute because the sweep will have repeated it."""
    _producer.send_task(task, args=[key, time.time()], queue=queue, expires=60, retry=False)
