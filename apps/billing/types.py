"""What other apps may know of usage."""

import dataclasses
import datetime as dt
import uuid
from decimal import Decimal


@dataclasses.dataclass(frozen=True)
class UsageView:
    """One metered interval; `gpu_seconds` is None while it is open."""

    allocation_id: uuid.UUID
    object_kind: str
    object_id: uuid.UUID
    gpu_count: int
    gpu_model: str
    started_at: dt.datetime
    ended_at: dt.datetime | None
    gpu_seconds: Decimal | None
    source: str
