"""REST: bringing files for jobs."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rest import TenantView
from apps.core import clock
from apps.core.access import Permission, require
from apps.core.errors import BerthError
from apps.core.rest.openapi import TENANT
from apps.core.rest.ranges import release_connection
from apps.storage.services import file_store

CHUNK = 1 << 20


class FileTooLarge(BerthError):
    """The announced length is above the limit."""

    code = "file_too_large"
    status = 413
    title = "The file is too large"


class FileOut(serializers.Serializer[Any]):
    """A stored file; name it in a job's `files` by its SHA-256."""

    sha256 = serializers.CharField()
    size = serializers.IntegerField()


class Unread(BaseParser):
    """Takes any body and leaves it unread: the CSRF check of a browser's session would parse it otherwise."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> dict[str, Any]:
        """Returns nothing."""
        return {}


class FilesView(TenantView):
    """Uploads."""

    parser_classes = (Unread,)

    @extend_schema(
        operation_id="file_store",
        summary="Upload a file",
        description="The body is the file itself. The same content again is the same file.",
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses={201: FileOut},
        parameters=[TENANT],
        tags=["files"],
    )
    def post(self, request: Request) -> Response:
        """Keeps the raw body, in constant memory."""
        actor, tenant = self.actor, self.tenant
        require(actor, Permission.JOB_SUBMIT, tenant_id=tenant.id)
        base = request._request
        limit = settings.BERTH_FILE_LIMIT_BYTES
        if int(base.META.get("CONTENT_LENGTH") or 0) > limit:
            raise FileTooLarge(f"A file may have at most {limit} bytes.")
        release_connection()
        file = file_store(actor=actor, tenant=tenant, chunks=_chunks(base), now=clock.utc_now())
        return Response(FileOut(file).data, status=201)


def _chunks(request: HttpRequest) -> Iterator[bytes]:
    """Reads the body past DRF, which takes a chunked body (without Content-Length) for none."""
    while data := request.read(CHUNK):
        yield data


api_urlpatterns = [path("files", FilesView.as_view(), name="files")]
