"""Pages of nodes, for operators: list, add, one node."""

from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django.views.decorators.vary import vary_on_headers

from apps.accounts.pages import Visitor, operator_page, told
from apps.core.access import Permission, require
from apps.core.clock import utc_now
from apps.core.errors import InvalidInput
from apps.fleet.choices import WHOLE_SHARE, GpuHealth, NodeState
from apps.fleet.forms import NodeForm
from apps.fleet.selectors import node_events, node_get, node_list
from apps.fleet.services import (
    node_add,
    node_cordon,
    node_drain,
    node_inventory,
    node_maintenance,
    node_retire,
    node_trust,
    node_uncordon,
    portal_key_public,
)
from apps.fleet.story import event_text
from apps.fleet.types import NodeView

PAGE = 100

ACTS = {
    NodeState.READY: ("inventory", "cordon", "drain", "maintenance"),
    NodeState.CORDONED: ("inventory", "uncordon", "drain", "maintenance", "retire"),
    NodeState.DRAINING: ("inventory", "uncordon", "cordon", "maintenance"),
    NodeState.MAINTENANCE: ("inventory", "uncordon", "cordon", "retire"),
    NodeState.ENROLLING: ("retire",),
    NodeState.UNREACHABLE: ("retire",),
    NodeState.DOWN: ("retire",),
    NodeState.RETIRED: (),
}


@require_GET
@vary_on_headers("HX-Request")
@operator_page
def node_list_page(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """All nodes by name; htmx gets the table alone."""
    state = request.GET.get("state", "")
    nodes = node_list(
        actor=visitor.actor, state=state if state in NodeState.values else "", after=request.GET.get("after", ""),
        limit=PAGE + 1,
    )  # fmt: skip
    context = {
        "rows": [_row(node) for node in nodes[:PAGE]], "next": nodes[PAGE - 1].name if len(nodes) > PAGE else None,
        "filters": list(NodeState), "state": state, "paged": "after" in request.GET, "now": utc_now(),
    }  # fmt: skip
    template = "fleet/node_table.html" if request.headers.get("HX-Request") else "fleet/node_list.html"
    return render(request, template, context)


def _row(node: NodeView) -> dict[str, Any]:
    good = [gpu for gpu in node.gpus if gpu.health == GpuHealth.OK]
    return {
        "node": node, "models": sorted({gpu.model for gpu in node.gpus}), "sick": len(node.gpus) - len(good),
        "cpu_free": node.cpu_milli - node.cpu_milli_used, "memory_free": node.memory_mib - node.memory_mib_used,
        "free": sum(gpu.share_free == WHOLE_SHARE for gpu in good),
    }  # fmt: skip


@require_http_methods(["GET", "POST"])
@operator_page
def node_new_page(request: HttpRequest, visitor: Visitor) -> HttpResponseBase:
    """The form that adds a node; its page then shows the host key."""
    require(visitor.actor, Permission.NODE_MANAGE)
    form = NodeForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            node = node_add(actor=visitor.actor, now=utc_now(), **form.values())
        except InvalidInput as error:
            form.add_errors(error)
        else:
            return redirect("node", node=node.name)
    context = {"form": form, "portal_key": portal_key_public()}
    return render(request, "fleet/node_new.html", context, status=422 if form.errors else 200)


@require_GET
@operator_page
def node_page(request: HttpRequest, visitor: Visitor, node: str) -> HttpResponseBase:
    """One node: enrolment, GPUs, preflight, events."""
    return render(request, "fleet/node.html", _context(visitor, node))


@require_GET
@operator_page
def node_live(request: HttpRequest, visitor: Visitor, node: str) -> HttpResponseBase:
    """The part of a node's page that changes."""
    return render(request, "fleet/node_live.html", _context(visitor, node))


def _context(visitor: Visitor, name: str) -> dict[str, Any]:
    node = node_get(actor=visitor.actor, node=name)
    events = node_events(actor=visitor.actor, node_id=node.id)
    return {
        "node": node, "events": [{**event, "text": event_text(event)} for event in reversed(events)],
        "acts": ACTS[NodeState(node.state)] if visitor.may(Permission.NODE_MANAGE) else (),
        "failed": [check for check in node.preflight if not check["ok"]], "steps": _enrolment(node),
        "portal_key": portal_key_public() if node.state == NodeState.ENROLLING else "", "now": utc_now(),
        "whole": WHOLE_SHARE, **_row(node),
    }  # fmt: skip


def _enrolment(node: NodeView) -> list[tuple[str, bool]]:
    """Steps of an enrolment with whether each is done; empty for a node that has finished it."""
    if node.state != NodeState.ENROLLING:
        return []
    clean = bool(node.preflight) and all(check["ok"] for check in node.preflight)
    return [
        (_("host key fetched"), bool(node.offered_fingerprint or node.host_key_fingerprint)),
        (_("host key confirmed"), bool(node.host_key_fingerprint)),
        (_("preflight passed"), clean),
        (_("agent started"), bool(node.agent_version)),
        (str(NodeState.READY.label), False),
    ]


@require_POST
@operator_page
def node_trust_act(request: HttpRequest, visitor: Visitor, node: str) -> HttpResponseBase:
    """Pins the host key whose fingerprint the operator confirms."""
    found = node_get(actor=visitor.actor, node=node)
    seen = request.POST.get("fingerprint", "")
    told(
        request,
        lambda: node_trust(actor=visitor.actor, node_id=found.id, fingerprint_seen=seen, now=utc_now()),
        _("The host key is pinned. Berth signs in now and looks at the node."),
    )
    return redirect("node", node=node)


@require_POST
@operator_page
def node_act(request: HttpRequest, visitor: Visitor, node: str, verb: str) -> HttpResponseBase:
    """Cordons, uncordons, drains, maintains or retires a node, or has it take inventory."""
    found = node_get(actor=visitor.actor, node=node)
    actor, node_id, now = visitor.actor, found.id, utc_now()
    reason = request.POST.get("reason", "").strip()[:200]
    if verb == "inventory":
        asked = _("The node is asked what it has; the answer stands below in a moment.")
        told(request, lambda: node_inventory(actor=actor, node_id=node_id, now=now), asked)
    elif verb == "cordon":
        done = _("The node is out of the offer. What runs goes on.")
        told(request, lambda: node_cordon(actor=actor, node_id=node_id, reason=reason, now=now), done)
    elif verb == "uncordon":
        told(
            request, lambda: node_uncordon(actor=actor, node_id=node_id, now=now), _("The node is in the offer again.")
        )
    elif verb == "drain":
        done = _("The node drains: what runs ends in its own time.")
        told(request, lambda: node_drain(actor=actor, node_id=node_id, reason=reason, now=now), done)
    elif verb == "maintenance":
        done = _("The node is in maintenance. Uncordon it when the work is done.")
        told(request, lambda: node_maintenance(actor=actor, node_id=node_id, reason=reason, now=now), done)
    else:
        told(request, lambda: node_retire(actor=actor, node_id=node_id, now=now), _("The node is retired."))
    # a retired node gives its name free
    return redirect("node", node=found.id if verb == "retire" else node)
