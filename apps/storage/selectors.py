"""Finding stored files."""

import uuid

from apps.core.tenancy import tenant_scope
from apps.storage.models import StoredFile
from apps.storage.types import FileRef


def files_by_sha256(*, tenant_id: uuid.UUID, digests: list[str]) -> dict[str, FileRef]:
    """Returns those of the tenant's files that exist, by SHA-256."""
    with tenant_scope(tenant_id):
        rows = StoredFile.objects.filter(tenant_id=tenant_id, sha256__in=digests)
        return {row.sha256: FileRef(tenant_id=tenant_id, sha256=row.sha256, size=row.size) for row in rows}
