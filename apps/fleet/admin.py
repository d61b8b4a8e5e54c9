"""Nodes on the admin site, to look at."""

from django.contrib import admin

from apps.core.admin import ReadOnlyAdmin
from apps.fleet.models import GpuDevice, Node, NodeOperation


@admin.register(Node)
class NodeAdmin(ReadOnlyAdmin):
    """Nodes."""

    list_display = ("name", "state", "address", "agent_version", "last_alive_at")
    search_fields = ("name", "address")
    list_filter = ("state",)
    ordering = ("name",)


@admin.register(GpuDevice)
class GpuDeviceAdmin(ReadOnlyAdmin):
    """Their GPUs."""

    list_display = ("uuid", "node", "model", "health", "share_used")
    search_fields = ("uuid", "node__name")
    list_filter = ("health", "model")
    list_select_related = ("node",)
    ordering = ("node",)


@admin.register(NodeOperation)
class NodeOperationAdmin(ReadOnlyAdmin):
    """What was asked of nodes; sealed arguments are not shown."""

    list_display = ("created_at", "node", "kind", "state", "deadline_at")
    search_fields = ("node__name", "object_id")
    list_filter = ("kind", "state")
    list_select_related = ("node",)
    ordering = ("-created_at",)
