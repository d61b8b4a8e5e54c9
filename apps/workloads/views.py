"""Pages of jobs: list, new, one job."""

import hashlib
import json
import uuid
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django.views.decorators.vary import vary_on_headers

from apps.accounts.pages import Member, Visitor, page, tenant_choose, tenant_page, told
from apps.core import idempotency
from apps.core.access import Permission
from apps.core.clock import utc_now
from apps.core.errors import BerthError, IdempotencyMismatch, InvalidInput, NotFound
from apps.core.tenancy import tenant_scope
from apps.tenants.selectors import quota_list
from apps.workloads.choices import JobResult, JobState
from apps.workloads.forms import JobForm, initial_of, new_key
from apps.workloads.reasons import end_words, pending_words
from apps.workloads.selectors import job_clone_spec, job_events, job_get, job_list
from apps.workloads.services import job_cancel, job_requeue, job_submit
from apps.workloads.story import event_text, timeline
from apps.workloads.types import JobSpec, JobView

PAGE = 50
FILTERS = [s for s in JobState if s != JobState.ENDED] + list(JobResult)
ROUTE = "console.job_new"


@require_GET
@vary_on_headers("HX-Request")
@tenant_page
def job_list_page(request: HttpRequest, member: Member) -> HttpResponseBase:
    """The tenant's jobs, newest first; htmx gets the table alone."""
    state, search = request.GET.get("state", ""), request.GET.get("q", "")
    jobs = job_list(
        actor=member.actor, tenant=member.tenant, state=state if state in FILTERS else "", search=search,
        before=_uuid(request.GET.get("before", "")), limit=PAGE + 1,
    )  # fmt: skip
    rows = [{"job": job, "words": pending_words(job) or end_words(job)} for job in jobs[:PAGE]]
    context = {
        "rows": rows, "next": jobs[PAGE - 1].id if len(jobs) > PAGE else None, "filters": FILTERS, "state": state,
        "search": search, "paged": "before" in request.GET, "now": utc_now(), "tenant": member.tenant,
    }  # fmt: skip
    template = "workloads/job_table.html" if request.headers.get("HX-Request") else "workloads/job_list.html"
    return render(request, template, context)


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


@require_http_methods(["GET", "POST"])
@tenant_page
def job_new_page(request: HttpRequest, member: Member) -> HttpResponseBase:
    """The form of a new job; what was typed is never lost, and one form makes one job."""
    if request.method == "GET":
        return _form_page(request, member, JobForm(initial=_initial(request, member)))
    form = JobForm(request.POST)
    if not form.is_valid():
        return _form_page(request, member, form)
    try:
        job_id = _submit(member, form)
    except IdempotencyMismatch:
        form.add_error(None, _("This form was sent before with other values. Send it again to submit another job."))
        return _form_page(request, member, _with_new_key(form))
    except InvalidInput as error:
        form.add_errors(error)
        return _form_page(request, member, form)
    except BerthError as error:
        form.add_error(None, error.detail)
        return _form_page(request, member, form, status=error.status)
    return redirect("job", job_id=job_id)


def _initial(request: HttpRequest, member: Member) -> dict[str, Any]:
    source = _uuid(request.GET.get("clone", ""))
    if source is None:
        return {"idempotency_key": new_key()}
    spec = job_clone_spec(actor=member.actor, tenant=member.tenant, job_id=source)
    return initial_of(spec, clone_of=source) | {"idempotency_key": new_key()}


def _with_new_key(form: JobForm) -> JobForm:
    form.data = form.data.copy()  # type: ignore[attr-defined]
    form.data["idempotency_key"] = new_key()  # type: ignore[index]
    return form


def _submit(member: Member, form: JobForm) -> uuid.UUID:
    source = form.cleaned_data["clone_of"]
    kept = job_clone_spec(actor=member.actor, tenant=member.tenant, job_id=source).env if source else {}
    spec, now = form.spec(kept_env=kept), utc_now()
    with tenant_scope(member.tenant.id):
        record = idempotency.begin(
            tenant_id=member.tenant.id, actor=member.actor, route=ROUTE, key=form.cleaned_data["idempotency_key"],
            body=_digest(spec), now=now,
        )  # fmt: skip
        if isinstance(record.answer, dict):
            return uuid.UUID(record.answer["id"])
        job = job_submit(actor=member.actor, tenant=member.tenant, spec=spec, now=now)
        idempotency.finish(record, status=201, answer={"id": str(job.id)})
    return job.id


def _digest(spec: JobSpec) -> bytes:
    return hashlib.sha256(json.dumps(repr(spec)).encode()).digest()


def _form_page(request: HttpRequest, member: Member, form: JobForm, status: int = 0) -> HttpResponseBase:
    context = {"form": form, "tenant": member.tenant, "quotas": quota_list(tenant=member.tenant)}
    return render(request, "workloads/job_new.html", context, status=status or (422 if form.errors else 200))


@require_GET
@page
def job_page(request: HttpRequest, visitor: Visitor, job_id: uuid.UUID) -> HttpResponseBase:
    """One job with its timeline, log, readings, events and spec."""
    member, job = _find(request, visitor, job_id)
    return render(request, "workloads/job.html", _context(member, job))


def _find(request: HttpRequest, visitor: Visitor, job_id: uuid.UUID) -> tuple[Member, JobView]:
    """Finds the job in the present tenant or, for a link from a mail, in another of the visitor's tenants."""
    present = [visitor.tenant] if visitor.tenant else []
    for tenant in [*present, *(t for t in visitor.tenants if t != visitor.tenant)]:
        try:
            job = job_get(actor=visitor.actor, tenant=tenant, job_id=job_id)
        except NotFound:
            continue
        if tenant != visitor.tenant:
            tenant_choose(request, tenant.slug)
        return Member(user=visitor.user, actor=visitor.actor, tenants=visitor.tenants, tenant=tenant), job
    raise NotFound("There is no such job.")


@require_GET
@tenant_page
def job_live(request: HttpRequest, member: Member, job_id: uuid.UUID) -> HttpResponseBase:
    """The parts of a job's page that change; the page fetches them when a hint says so."""
    job = job_get(actor=member.actor, tenant=member.tenant, job_id=job_id)
    return render(request, "workloads/job_live.html", _context(member, job) | {"oob": True})


def _context(member: Member, job: JobView) -> dict[str, Any]:
    events = job_events(actor=member.actor, tenant=member.tenant, job_id=job.id)
    own = member.actor.id == str(job.created_by_id) and member.may(Permission.JOB_SUBMIT)
    return {
        "job": job, "tenant": member.tenant, "attempt": job.attempt, "steps": timeline(job, events),
        "events": [{**event, "text": event_text(event)} for event in reversed(events)],
        "waits": pending_words(job), "end": end_words(job), "active": job.state != JobState.ENDED,
        "may_manage": own or member.may(Permission.JOB_MANAGE), "may_submit": member.may(Permission.JOB_SUBMIT),
        "may_cancel": job.state not in (JobState.ENDED, JobState.STOPPING), "now": utc_now(),
    }  # fmt: skip


@require_POST
@tenant_page
def job_cancel_act(request: HttpRequest, member: Member, job_id: uuid.UUID) -> HttpResponseBase:
    """Cancels a job."""
    told(
        request,
        lambda: job_cancel(actor=member.actor, tenant=member.tenant, job_id=job_id, now=utc_now()),
        _("The job is cancelled. A running one gets 30 s to stop."),
    )
    return redirect("job", job_id=job_id)


@require_POST
@tenant_page
def job_requeue_act(request: HttpRequest, member: Member, job_id: uuid.UUID) -> HttpResponseBase:
    """Puts an ended job back into the queue."""
    told(
        request,
        lambda: job_requeue(actor=member.actor, tenant=member.tenant, job_id=job_id, now=utc_now()),
        _("The job is in the queue again."),
    )
    return redirect("job", job_id=job_id)
