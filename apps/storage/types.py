"""What other apps may know of stored files."""

import dataclasses
import uuid


@dataclasses.dataclass(frozen=True)
class FileRef:
    """A stored file of a tenant: `key` reads its bytes from the blob store."""

    tenant_id: uuid.UUID
    sha256: str
    size: int

    @property
    def key(self) -> str:
        """The blob's key."""
        return f"files/{self.tenant_id}/{self.sha256}"
