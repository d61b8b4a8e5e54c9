"""Wishes to the outside world, written in the transaction of the state change that causes them."""

import dataclasses
import datetime as dt
from collections.abc import Iterable
from typing import Any

from apps.core.models import OutboxMessage


@dataclasses.dataclass(frozen=True)
class Wish:
    """One message for the relay: an imperative topic, the object's key and a small payload (ids, no content)."""

    topic: str
    key: str
    payload: dict[str, Any] = dataclasses.field(default_factory=dict)
    not_before: dt.datetime | None = None


def outbox_put(wishes: Iterable[Wish]) -> None:
    """Writes the wishes as rows of the open transaction; the relay hands them on after its commit."""
    rows = []
    for wish in wishes:
        row = OutboxMessage(topic=wish.topic, key=wish.key, payload=wish.payload)
        if wish.not_before is not None:
            row.not_before = wish.not_before
        rows.append(row)
    if rows:
        OutboxMessage.objects.bulk_create(rows)
