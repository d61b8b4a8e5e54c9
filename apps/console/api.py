"""REST: nodes together with the jobs on them (fleet alone does not know jobs)."""

import dataclasses
import uuid
from collections.abc import Callable
from typing import Any

from django.urls import path, register_converter
from django.urls.converters import StringConverter
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.rest import OperatorView
from apps.core import clock
from apps.core.rest.serializers import (
    AfterQuery,
    EventOut,
    Nothing,
    PageQuery,
    Strict,
    body_of,
    page,
    query_of,
    results_of,
)
from apps.fleet import services
from apps.fleet.choices import GpuHealth, NodeState
from apps.fleet.selectors import node_events, node_get, node_list
from apps.fleet.types import NodeView
from apps.workloads.selectors import jobs_on_nodes

TAGS = ["nodes"]
NODE = OpenApiParameter("node", str, OpenApiParameter.PATH, description="Name or id of the node.")


class NodeConverter(StringConverter):
    """A node's name or id."""

    regex = "[A-Za-z0-9-]{1,64}"


register_converter(NodeConverter, "node")


class NodesQuery(PageQuery):
    """The query of the list of nodes."""

    state = serializers.ChoiceField(
        choices=NodeState.choices, default="", help_text="Retired nodes are shown only when asked for."
    )


class NodeIn(Strict):
    """A machine to add."""

    name = serializers.CharField(max_length=63)
    address = serializers.CharField(max_length=253, help_text="Host name or IP address.")
    port = serializers.IntegerField(min_value=1, max_value=65_535, default=22)
    ssh_user = serializers.CharField(max_length=32, default="root")
    password = serializers.CharField(
        max_length=1024, trim_whitespace=False, required=False, write_only=True,
        help_text="Used once to install the portal's key, then wiped.",
    )  # fmt: skip
    expected_fingerprint = serializers.CharField(
        max_length=64, allow_blank=True, default="", help_text="`SHA256:…`; a matching host key is trusted at once."
    )


class TrustIn(Strict):
    """The fingerprint that a person compared."""

    fingerprint = serializers.CharField(max_length=64)


class ReasonIn(Strict):
    """Why."""

    reason = serializers.CharField(max_length=500, allow_blank=True, default="")


class GpuOut(serializers.Serializer[Any]):
    """A GPU of a node; 1000 free shares are a whole idle GPU."""

    id = serializers.UUIDField()
    uuid = serializers.CharField()
    pci_address = serializers.CharField()
    index = serializers.IntegerField(allow_null=True)
    model = serializers.CharField()
    memory_mib = serializers.IntegerField()
    health = serializers.ChoiceField(choices=GpuHealth.choices)
    health_detail = serializers.CharField()
    share_free = serializers.IntegerField()


class NodeJobOut(serializers.Serializer[Any]):
    """A job's hold on one GPU."""

    job_id = serializers.UUIDField()
    name = serializers.CharField()
    tenant = serializers.CharField()
    gpu_uuid = serializers.CharField()


class NodeOut(serializers.Serializer[Any]):
    """A GPU server that Berth reaches by SSH."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    address = serializers.CharField()
    port = serializers.IntegerField()
    ssh_user = serializers.CharField()
    state = serializers.ChoiceField(choices=NodeState.choices)
    state_detail = serializers.CharField()
    state_changed_at = serializers.DateTimeField()
    seq = serializers.IntegerField()
    host_key_fingerprint = serializers.CharField(help_text="Pinned; empty before trust.")
    offered_fingerprint = serializers.CharField(help_text="Shown by the node and waiting for trust.")
    boot_id = serializers.CharField()
    agent_version = serializers.CharField()
    clock_skew_ms = serializers.IntegerField(allow_null=True)
    last_alive_at = serializers.DateTimeField(allow_null=True)
    cpu_milli = serializers.IntegerField()
    cpu_milli_used = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    memory_mib_used = serializers.IntegerField()
    gpus = GpuOut(many=True)
    inventory = serializers.DictField(child=serializers.JSONField())
    preflight = serializers.ListField(child=serializers.DictField(child=serializers.JSONField()))
    jobs = NodeJobOut(many=True)


@dataclasses.dataclass(frozen=True)
class _Shown:
    """A node with its jobs, read attribute by attribute."""

    node: NodeView
    jobs: list[dict[str, Any]]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.node, name)


class NodeApi(OperatorView):
    """Shared by all views of nodes."""

    def shown(self, nodes: list[NodeView]) -> list[_Shown]:
        """Returns the nodes with what runs on them, in one more query."""
        jobs = jobs_on_nodes(actor=self.actor, node_ids=[node.id for node in nodes])
        return [_Shown(node, jobs.get(node.id, [])) for node in nodes]

    def answer(self, node: str, status: int = 200) -> Response:
        """Answers with the node as it stands."""
        view = node_get(actor=self.actor, node=node)
        return Response(NodeOut(self.shown([view])[0]).data, status=status)

    def node_id(self, node: str) -> uuid.UUID:
        """Returns the id of a node; raises NotFound."""
        return node_get(actor=self.actor, node=node).id


class NodesView(NodeApi):
    """All nodes."""

    @extend_schema(
        operation_id="node_list", summary="List nodes", parameters=[NodesQuery],
        responses=results_of(NodeOut, paged=True), tags=TAGS,
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """Lists one page by name."""
        query = query_of(request, NodesQuery)
        nodes = node_list(actor=self.actor, state=query["state"], after=query["cursor"], limit=query["limit"] + 1)
        shown = self.shown(nodes[: query["limit"]]) + nodes[query["limit"] :]
        return Response(page(shown, limit=query["limit"], cursor="name", serializer=NodeOut))

    @extend_schema(
        operation_id="node_add",
        summary="Add a node",
        description="Berth fetches the host key and shows it as `offered_fingerprint`; confirm it with …/trust.",
        request=NodeIn,
        responses={201: NodeOut},
        examples=[
            OpenApiExample(
                "By address", request_only=True, value={"name": "gpu-1", "address": "10.0.0.21", "ssh_user": "root"}
            )
        ],
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Adds one."""
        given = body_of(request, NodeIn)
        node = services.node_add(actor=self.actor, now=clock.utc_now(), **given)
        return self.answer(str(node.id), status=201)


class OneNodeView(NodeApi):
    """One node."""

    @extend_schema(operation_id="node_get", summary="Show a node", parameters=[NODE], responses=NodeOut, tags=TAGS)
    def get(self, request: Request, node: str) -> Response:
        """Shows it."""
        return self.answer(node)


class TrustView(NodeApi):
    """Confirms a host key."""

    @extend_schema(
        operation_id="node_trust",
        summary="Trust a node's host key",
        description="Compare the fingerprint with `ssh-keygen -lf` on the node's own console first.",
        parameters=[NODE],
        request=TrustIn,
        responses=NodeOut,
        tags=TAGS,
    )
    def post(self, request: Request, node: str) -> Response:
        """Pins it."""
        seen = body_of(request, TrustIn)["fingerprint"]
        node_id = self.node_id(node)
        services.node_trust(actor=self.actor, node_id=node_id, fingerprint_seen=seen, now=clock.utc_now())
        return self.answer(str(node_id))


class _ActView(NodeApi):
    """A verb on a node."""

    act: Callable[..., object]
    body: type[Strict] = Nothing

    def post(self, request: Request, node: str) -> Response:
        """Does it."""
        given = body_of(request, self.body)
        node_id = self.node_id(node)
        type(self).act(actor=self.actor, node_id=node_id, now=clock.utc_now(), **given)
        return self.answer(str(node_id))


def _act(verb: str, act: Callable[..., object], summary: str, body: type[Strict] = Nothing) -> Any:
    """Returns the view of one verb."""
    view = type(f"{verb.title()}View", (_ActView,), {"act": staticmethod(act), "body": body, "__doc__": f"{summary}."})
    schema = extend_schema(
        operation_id=f"node_{verb}", summary=summary, parameters=[NODE], request=body, responses=NodeOut, tags=TAGS
    )
    return extend_schema_view(post=schema)(view).as_view()  # type: ignore[attr-defined]


class NodeEventsView(NodeApi):
    """What happened to a node."""

    @extend_schema(
        operation_id="node_events", summary="Events of a node", parameters=[NODE, AfterQuery],
        responses=results_of(EventOut), tags=TAGS,
    )  # fmt: skip
    def get(self, request: Request, node: str) -> Response:
        """Lists them in order, at most 200."""
        after = query_of(request, AfterQuery)["after"]
        events = node_events(actor=self.actor, node_id=self.node_id(node), after_seq=after)
        return Response({"results": EventOut(events, many=True).data})


api_urlpatterns = [
    path("nodes", NodesView.as_view(), name="nodes"),
    path("nodes/<node:node>", OneNodeView.as_view(), name="node"),
    path("nodes/<node:node>/trust", TrustView.as_view(), name="node-trust"),
    path("nodes/<node:node>/cordon", _act("cordon", services.node_cordon, "Take a node out of the offer", ReasonIn),
         name="node-cordon"),
    path("nodes/<node:node>/drain", _act("drain", services.node_drain, "Wait for a node's jobs to end", ReasonIn),
         name="node-drain"),
    path("nodes/<node:node>/maintenance",
         _act("maintenance", services.node_maintenance, "Put an idle node into maintenance", ReasonIn),
         name="node-maintenance"),
    path("nodes/<node:node>/uncordon", _act("uncordon", services.node_uncordon, "Put a node back into the offer"),
         name="node-uncordon"),
    path("nodes/<node:node>/retire", _act("retire", services.node_retire, "Take a node out of service for good"),
         name="node-retire"),
    path("nodes/<node:node>/inventory", _act("inventory", services.node_inventory, "Have a node take inventory again"),
         name="node-inventory"),
    path("nodes/<node:node>/events", NodeEventsView.as_view(), name="node-events"),
]  # fmt: skip
