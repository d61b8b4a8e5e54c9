"""Keys for failpoints: the name of the job that an attempt, an operation or a message is about."""

import uuid
from collections.abc import Callable

from apps.fleet.selectors import operation_object
from apps.notifications.selectors import notification_cause
from apps.workloads.selectors import attempt_job
from workers.db import borrowed_connection


def of_attempt(attempt_id: uuid.UUID) -> Callable[[], str]:
    """Returns a function that looks up the name of the attempt's job, empty when there is none."""

    def look() -> str:
        with borrowed_connection():
            return _name(attempt_id)

    return look


def of_operation(operation_id: str) -> Callable[[], str]:
    """Returns the same for an operation's key in the outbox; for a thread that keeps its connection."""
    return lambda: _name(operation_object(uuid.UUID(operation_id)))


def of_message(notification_id: str) -> Callable[[], str]:
    """Returns the same for a message about a job's end (`job.ended:<attempt>`)."""
    return lambda: _name(_uuid(notification_cause(uuid.UUID(notification_id)).rpartition(":")[2]))


def _name(attempt_id: uuid.UUID | None) -> str:
    found = attempt_job(attempt_id) if attempt_id else None
    return found[1] if found else ""


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
