"""Jobs: list, submit, show, cancel, requeue, clone."""

import dataclasses
import uuid

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rest import TenantView
from apps.billing.selectors import usage_of
from apps.core import clock
from apps.core.rest.openapi import IDEMPOTENCY_KEY, LANGUAGE, TENANT
from apps.core.rest.repeats import idempotent
from apps.core.rest.serializers import AfterQuery, EventOut, Nothing, body_of, page, query_of, results_of
from apps.workloads.api.serializers import (
    JobOut,
    JobSpecChanges,
    JobSpecIn,
    JobsQuery,
    ReadingOut,
    ReadingsQuery,
    UsageOut,
    spec_fields,
)
from apps.workloads.selectors import job_clone_spec, job_events, job_get, job_list, job_readings
from apps.workloads.services import job_cancel, job_requeue, job_submit
from apps.workloads.types import JobSpec

TAGS = ["jobs"]
EXAMPLE = OpenApiExample(
    "Train on one GPU",
    request_only=True,
    value={
        "name": "digits",
        "image": "docker.io/library/python:3.12",
        "command": ["python", "train.py"],
        "env": {"SEED": "7"},
        "gpus": 1,
        "cpus": 4,
        "memory_mib": 8192,
        "time_limit_s": 3600,
    },
)


class JobView(TenantView):
    """Shared by all views of jobs."""

    def job_json(self, job_id: uuid.UUID) -> dict[str, object]:
        """Returns the job as it stands."""
        return dict(JobOut(job_get(actor=self.actor, tenant=self.tenant, job_id=job_id)).data)

    def submit(self, request: Request, spec: JobSpec) -> HttpResponse:
        """Submits once per Idempotency-Key."""

        def work() -> object:
            job = job_submit(actor=self.actor, tenant=self.tenant, spec=spec, now=clock.utc_now())
            return self.job_json(job.id)

        return idempotent(request, tenant_id=self.tenant.id, actor=self.actor, work=work)


class JobsView(JobView):
    """All jobs of the tenant."""

    @extend_schema(
        operation_id="job_list",
        summary="List jobs",
        description="Newest first.",
        parameters=[TENANT, LANGUAGE, JobsQuery],
        responses=results_of(JobOut, paged=True),
        tags=TAGS,
    )
    def get(self, request: Request) -> Response:
        """Lists one page."""
        query = query_of(request, JobsQuery)
        jobs = job_list(
            actor=self.actor, tenant=self.tenant, state=query["state"], search=query["search"],
            before=query.get("cursor"), limit=query["limit"] + 1,
        )  # fmt: skip
        return Response(page(jobs, limit=query["limit"], cursor="id", serializer=JobOut))

    @extend_schema(
        operation_id="job_submit",
        summary="Submit a job",
        parameters=[TENANT, LANGUAGE, IDEMPOTENCY_KEY],
        request=JobSpecIn,
        responses={201: JobOut},
        examples=[EXAMPLE],
        tags=TAGS,
    )
    def post(self, request: Request) -> HttpResponse:
        """Submits one."""
        return self.submit(request, JobSpec(**spec_fields(body_of(request, JobSpecIn))))


class OneJobView(JobView):
    """One job."""

    @extend_schema(
        operation_id="job_get", summary="Show a job", parameters=[TENANT, LANGUAGE], responses=JobOut, tags=TAGS
    )
    def get(self, request: Request, job_id: uuid.UUID) -> Response:
        """Shows it with its attempts."""
        return Response(self.job_json(job_id))


class CancelView(JobView):
    """Ends a job."""

    @extend_schema(
        operation_id="job_cancel",
        summary="Cancel a job",
        description="A waiting job ends at once, a running one is asked to stop. A second cancel changes nothing.",
        parameters=[TENANT, LANGUAGE],
        request=Nothing,
        responses=JobOut,
        tags=TAGS,
    )
    def post(self, request: Request, job_id: uuid.UUID) -> Response:
        """Cancels it."""
        body_of(request, Nothing)
        job_cancel(actor=self.actor, tenant=self.tenant, job_id=job_id, now=clock.utc_now())
        return Response(self.job_json(job_id))


class RequeueView(JobView):
    """Runs an ended job again."""

    @extend_schema(
        operation_id="job_requeue",
        summary="Requeue an ended job",
        description="A new attempt of the same job; earlier attempts stay on record.",
        parameters=[TENANT, LANGUAGE],
        request=Nothing,
        responses=JobOut,
        tags=TAGS,
    )
    def post(self, request: Request, job_id: uuid.UUID) -> Response:
        """Requeues it."""
        body_of(request, Nothing)
        job_requeue(actor=self.actor, tenant=self.tenant, job_id=job_id, now=clock.utc_now())
        return Response(self.job_json(job_id))


class CloneView(JobView):
    """Submits a job like another one."""

    @extend_schema(
        operation_id="job_clone",
        summary="Clone a job",
        description="A new job with the same spec, environment values included; the body names what shall differ.",
        parameters=[TENANT, LANGUAGE, IDEMPOTENCY_KEY],
        request=JobSpecChanges,
        responses={201: JobOut},
        tags=TAGS,
    )
    def post(self, request: Request, job_id: uuid.UUID) -> HttpResponse:
        """Clones it."""
        changes = spec_fields(body_of(request, JobSpecChanges))
        spec = job_clone_spec(actor=self.actor, tenant=self.tenant, job_id=job_id)
        return self.submit(request, dataclasses.replace(spec, **changes))


class EventsView(JobView):
    """What happened to a job."""

    @extend_schema(
        operation_id="job_events",
        summary="Events of a job",
        description="In order, at most 500; ask again with `after` set to the last `seq`.",
        parameters=[TENANT, AfterQuery],
        responses=results_of(EventOut),
        tags=TAGS,
    )
    def get(self, request: Request, job_id: uuid.UUID) -> Response:
        """Lists them."""
        after = query_of(request, AfterQuery)["after"]
        events = job_events(actor=self.actor, tenant=self.tenant, job_id=job_id, after_seq=after)
        return Response({"results": EventOut(events, many=True).data})


class ReadingsView(JobView):
    """What the job's GPUs do."""

    @extend_schema(
        operation_id="job_gpu_readings",
        summary="GPU readings of a job",
        description="Of the newest attempt, while it held the GPUs; oldest first, at most 2000.",
        parameters=[TENANT, ReadingsQuery],
        responses=results_of(ReadingOut),
        tags=TAGS,
    )
    def get(self, request: Request, job_id: uuid.UUID) -> Response:
        """Lists them."""
        since = query_of(request, ReadingsQuery).get("since")
        readings = job_readings(actor=self.actor, tenant=self.tenant, job_id=job_id, since=since)
        return Response({"results": ReadingOut(readings, many=True).data})


class UsageView(JobView):
    """What the job used."""

    @extend_schema(
        operation_id="job_usage",
        summary="Metered intervals of a job",
        parameters=[TENANT],
        responses=results_of(UsageOut),
        tags=TAGS,
    )
    def get(self, request: Request, job_id: uuid.UUID) -> Response:
        """Lists them."""
        job_get(actor=self.actor, tenant=self.tenant, job_id=job_id)
        usage = usage_of(tenant=self.tenant, object_id=job_id)
        return Response({"results": UsageOut(usage, many=True).data})
