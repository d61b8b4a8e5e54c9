"""What other apps may know of a tenant."""

import dataclasses
import uuid


@dataclasses.dataclass(frozen=True)
class TenantRef:
    """A tenant as an argument: its id and names."""

    id: uuid.UUID
    slug: str
    name: str


@dataclasses.dataclass(frozen=True)
class QuotaView:
    """One counter of a tenant; `ceiling` None means unlimited."""

    resource: str
    used: int
    ceiling: int | None
