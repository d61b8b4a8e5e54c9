"""Taking in files."""

import datetime as dt
import hashlib
from collections.abc import Iterable

from django.conf import settings

from apps.audit.services import audit_record
from apps.core import ids
from apps.core.access import Actor, Permission, require
from apps.core.errors import InvalidInput
from apps.core.tenancy import tenant_scope
from apps.storage.blobs import blob_chunks, blob_store
from apps.storage.models import StoredFile
from apps.storage.types import FileRef
from apps.tenants.types import TenantRef


def file_store(*, actor: Actor, tenant: TenantRef, chunks: Iterable[bytes], now: dt.datetime) -> FileRef:
    """Keeps a file by its SHA-256, in constant memory; the same content again is the same file.

    Raises InvalidInput above BERTH_FILE_LIMIT_BYTES; nothing of a refused file is kept.
    """
    require(actor, Permission.JOB_SUBMIT, tenant_id=tenant.id)
    store, digest, size = blob_store(), hashlib.sha256(), 0
    upload = f"uploads/{tenant.id}/{ids.uuid7()}"
    try:
        for chunk in chunks:
            size += len(chunk)
            if size > settings.BERTH_FILE_LIMIT_BYTES:
                raise InvalidInput(f"A file may have at most {settings.BERTH_FILE_LIMIT_BYTES} bytes.")
            store.write_at(upload, size - len(chunk), chunk)
            digest.update(chunk)
        file = FileRef(tenant_id=tenant.id, sha256=digest.hexdigest(), size=size)
        _copy(upload, file)
    finally:
        store.delete_prefix(upload)
    with tenant_scope(tenant.id):
        _, new = StoredFile.objects.get_or_create(tenant_id=tenant.id, sha256=file.sha256, defaults={"size": file.size})
        if new:
            audit_record(
                actor=actor, action="file.store", object_kind="file", object_id=file.sha256,
                tenant_id=tenant.id, after={"size": size}, now=now,
            )  # fmt: skip
    return file


def _copy(upload: str, file: FileRef) -> None:
    """Copies through the Protocol: S3 has no rename, and a repeat writes the same bytes."""
    store, offset = blob_store(), 0
    if store.size(file.key) == file.size and file.size:
        return
    for chunk in blob_chunks(upload, file.size):
        store.write_at(file.key, offset, chunk)
        offset += len(chunk)
    if file.size == 0:
        store.write_at(file.key, 0, b"")
    store.sync(file.key)
