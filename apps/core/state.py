"""The one door for state: compare and swap, the event and the outbox rows in one transaction.

The database refuses every other way (triggers generated from each app's `choices.py`).
"""

import contextlib
import datetime as dt
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from django.db import connection, models, transaction

from apps.core import hints
from apps.core.errors import NotFound, StateConflict
from apps.core.models import Event
from apps.core.outbox import Wish, outbox_put

M = TypeVar("M", bound=models.Model)


def _tenant_of(row: models.Model) -> uuid.UUID | None:
    return getattr(row, "tenant_id", None)


def _announce(kind: str, object_id: uuid.UUID, tenant_id: uuid.UUID | None, seq: int) -> None:
    """Hints after the commit: the object's own topic, and the list it stands in."""
    hints.publish_on_commit(f"{kind}/{object_id}", {"kind": "event", "seq": seq})
    hints.publish_on_commit(f"{kind}s/{tenant_id or 'platform'}", {"kind": "list", "id": str(object_id)})


def _one_transaction() -> AbstractContextManager[object]:
    """The open transaction, or a new one: what is refused here is refused before anything is written, so that a
    savepoint within an open one would only cost two round trips."""
    return contextlib.nullcontext() if connection.in_atomic_block else transaction.atomic()


def _locked(model: type[M], pk: uuid.UUID) -> M:
    row = model._default_manager.select_for_update().filter(pk=pk).first()
    if row is None:
        raise NotFound(f"There is no {model._meta.verbose_name} {pk}.")
    return row


def _tell(
    row: models.Model, name: str, data: Mapping[str, Any] | None, wishes: Sequence[Wish], now: dt.datetime
) -> None:
    """Writes the wishes of a step and the event of the number that the row has just got."""
    outbox_put(wishes)
    kind: str = row.EVENT_KIND  # type: ignore[attr-defined]
    seq: int = row.seq  # type: ignore[attr-defined]
    if not kind:  # rows whose story another object's events tell, such as node operations
        return
    tenant_id = _tenant_of(row)
    Event.objects.create(
        tenant_id=tenant_id, object_kind=kind, object_id=row.pk, seq=seq, name=name, data=dict(data or {}), at=now
    )
    _announce(kind, row.pk, tenant_id, seq)


def created(
    row: M, *, event: str, data: Mapping[str, Any] | None = None, wishes: Sequence[Wish] = (), now: dt.datetime
) -> M:
    """Inserts a new row with its first event and its wishes, in the open transaction."""
    row.seq = 1  # type: ignore[attr-defined]
    row.save(force_insert=True)
    _tell(row, event, data, wishes, now)
    return row


def transition(
    model: type[M],
    pk: uuid.UUID,
    *,
    expect: Iterable[str],
    to: str,
    event: str,
    data: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    wishes: Sequence[Wish] = (),
    now: dt.datetime,
) -> M:
    """Moves one row from one of the expected states to another; returns it, locked.

    Raises StateConflict when it stands elsewhere, NotFound when the scope does not show it.
    """
    with _one_transaction():
        row = _locked(model, pk)
        return moved(row, expect=expect, to=to, event=event, data=data, changes=changes, wishes=wishes, now=now)


def moved(
    row: M,
    *,
    expect: Iterable[str],
    to: str,
    event: str,
    data: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    wishes: Sequence[Wish] = (),
    now: dt.datetime,
) -> M:
    """`transition` of a row that the open transaction has locked already; raises StateConflict."""
    state: str = row.state  # type: ignore[attr-defined]
    if state not in set(expect):
        raise StateConflict(f"The {row._meta.verbose_name} is {state}; this needs it to be {' or '.join(expect)}.")
    return _changed(row, {"state": to, "state_changed_at": now, **(changes or {})}, event, data, wishes, now)


def _changed(
    row: M, values: Mapping[str, Any], event: str, data: Mapping[str, Any] | None, wishes: Sequence[Wish],
    now: dt.datetime,
) -> M:  # fmt: skip
    for field, value in values.items():
        setattr(row, field, value)
    row.seq += 1  # type: ignore[attr-defined]
    row.save(update_fields=[*values, "seq"])
    _tell(row, event, data, wishes, now)
    return row


def noted(
    model: type[M],
    pk: uuid.UUID,
    *,
    event: str,
    data: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    wishes: Sequence[Wish] = (),
    now: dt.datetime,
) -> M:
    """Appends an event to a row whose state stays; `changes` may not touch the state."""
    if changes and "state" in changes:
        raise ValueError("a state changes through transition() only")
    with _one_transaction():
        return _changed(_locked(model, pk), changes or {}, event, data, wishes, now)
