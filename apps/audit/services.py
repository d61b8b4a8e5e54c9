"""Writing the audit log, always in the transaction of the act itself."""

import datetime as dt
import uuid
from typing import Any

from apps.audit.models import AuditEntry
from apps.core.access import Actor


def audit_record(
    *,
    actor: Actor,
    action: str,
    object_kind: str,
    object_id: object = "",
    object_label: str = "",
    tenant_id: uuid.UUID | None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    outcome: str = "ok",
    now: dt.datetime,
) -> None:
    """Appends one entry; the caller has masked secrets in `before` and `after`."""
    AuditEntry.objects.create(
        tenant_id=tenant_id,
        at=now,
        actor_kind=actor.kind.value,
        actor_id=actor.id,
        actor_label=actor.label,
        action=action,
        object_kind=object_kind,
        object_id=str(object_id),
        object_label=object_label,
        before=before,
        after=after,
        outcome=outcome,
        address=actor.address,
        user_agent=actor.user_agent[:255],
        request_id=actor.request_id,
    )
