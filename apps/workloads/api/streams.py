"""The bytes of a job: log ranges, whole downloads."""

import functools
import uuid
from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request

from apps.accounts.rest import TenantView
from apps.core.errors import NotFound
from apps.core.rest.openapi import TENANT
from apps.core.rest.ranges import download
from apps.core.rest.serializers import query_of
from apps.workloads.api.serializers import AttemptQuery, LogQuery
from apps.workloads.choices import Stream
from apps.workloads.selectors import job_get, stream_info, stream_read
from apps.workloads.selectors.streams import StreamInfo

TAGS = ["jobs"]
BYTES = {(200, "application/octet-stream"): OpenApiTypes.BINARY}
RANGED: dict[Any, Any] = {
    (200, "application/octet-stream"): OpenApiTypes.BINARY,
    (206, "application/octet-stream"): OpenApiTypes.BINARY,
    416: OpenApiResponse(description="The range begins after the end."),
}
RANGE = OpenApiParameter("Range", str, OpenApiParameter.HEADER, description="One range such as `bytes=0-1023`.")
LOG_HEADERS = [
    OpenApiParameter(name, kind, OpenApiParameter.HEADER, description=text, response=[200])
    for name, kind, text in (
        ("Berth-Attempt", int, "Number of the attempt; 0 before the first."),
        ("Berth-Offset", int, "Where this body begins."),
        ("Berth-Length", int, "Bytes that stand now."),
        ("Berth-Complete", bool, "Whether nothing more comes."),
        ("Berth-Truncated", bool, "Whether the log limit cut it."),
        ("Berth-SHA256", str, "Of the whole log, once it is sealed."),
    )
]


class StreamView(TenantView):
    """Shared by all views of bytes."""

    def info(self, job_id: uuid.UUID, stream: Stream, attempt: int | None) -> StreamInfo:
        """Returns what stands of the stream; raises NotFound."""
        return stream_info(actor=self.actor, tenant=self.tenant, job_id=job_id, stream=stream, attempt_no=attempt)

    def whole(self, request: Request, info: StreamInfo, filename: str) -> HttpResponseBase:
        """Answers with the stream as it stands."""
        answer = download(
            functools.partial(_read, info),
            length=info.length,
            range_header=request.headers.get("Range"),
            filename=filename,
        )
        if info.sha256:
            answer["Berth-SHA256"] = info.sha256
        return answer


def _read(info: StreamInfo, offset: int, length: int) -> bytes:
    return stream_read(info, offset=offset, length=length)


class LogView(StreamView):
    """A part of a log."""

    @extend_schema(
        operation_id="job_log",
        summary="Read a part of a job's log",
        description="Raw bytes. Follow a log by asking again from Berth-Offset plus the length of the body until"
        " Berth-Complete is true and nothing is left. Before the first attempt the answer is empty.",
        parameters=[TENANT, LogQuery, *LOG_HEADERS],
        responses=BYTES,
        tags=TAGS,
    )
    def get(self, request: Request, job_id: uuid.UUID) -> HttpResponse:
        """Reads."""
        query = query_of(request, LogQuery)
        try:
            info = self.info(job_id, Stream.LOG, query.get("attempt"))
        except NotFound:
            job = job_get(actor=self.actor, tenant=self.tenant, job_id=job_id)
            if query.get("attempt"):
                raise
            # an attempt may have been placed since the first look: then the log is empty, not complete
            complete = bool(job.result) and not job.attempts
            return _log_answer(b"", attempt=0, offset=0, length=0, complete=complete, truncated=False, sha256="")
        wanted = query["offset"]
        offset = min(wanted if wanted >= 0 else max(0, info.length + wanted), info.length)
        return _log_answer(
            stream_read(info, offset=offset, length=query["limit"]), attempt=info.attempt_no, offset=offset,
            length=info.length, complete=info.complete, truncated=info.truncated, sha256=info.sha256,
        )  # fmt: skip


def _log_answer(
    body: bytes, *, attempt: int, offset: int, length: int, complete: bool, truncated: bool, sha256: str
) -> HttpResponse:
    headers = {
        "Berth-Attempt": str(attempt),
        "Berth-Offset": str(offset),
        "Berth-Length": str(length),
        "Berth-Complete": "true" if complete else "false",
        "Berth-Truncated": "true" if truncated else "false",
        "Cache-Control": "no-store",
    }
    if sha256:
        headers["Berth-SHA256"] = sha256
    return HttpResponse(body, content_type="application/octet-stream", headers=headers)


class LogDownloadView(StreamView):
    """A whole log."""

    @extend_schema(
        operation_id="job_log_download",
        summary="Download a job's log",
        parameters=[TENANT, AttemptQuery, RANGE],
        responses=RANGED,
        tags=TAGS,
    )
    def get(self, request: Request, job_id: uuid.UUID) -> HttpResponseBase:
        """Streams it."""
        info = self.info(job_id, Stream.LOG, query_of(request, AttemptQuery).get("attempt"))
        return self.whole(request, info, f"{job_id}-{info.attempt_no}.log")


class OutputsView(StreamView):
    """What a job left behind."""

    @extend_schema(
        operation_id="job_outputs",
        summary="Download a job's outputs",
        description="A tar archive; 404 when none were kept.",
        parameters=[TENANT, AttemptQuery, RANGE],
        responses=RANGED,
        tags=TAGS,
    )
    def get(self, request: Request, job_id: uuid.UUID) -> HttpResponseBase:
        """Streams it."""
        info = self.info(job_id, Stream.OUTPUTS, query_of(request, AttemptQuery).get("attempt"))
        if not info.sha256 or not info.length:
            raise NotFound("The job has no outputs: it kept none, or it has not ended yet.")
        return self.whole(request, info, f"{job_id}-{info.attempt_no}-outputs.tar")
