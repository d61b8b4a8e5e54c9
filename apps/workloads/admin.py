"""Jobs on the admin site, to look at."""

from django.contrib import admin

from apps.core.admin import ReadOnlyAdmin
from apps.workloads.models import Attempt, Job


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    """Jobs of all tenants; sealed environments are not shown."""

    list_display = ("name", "tenant", "state", "result", "pending_reason", "end_reason", "created_at")
    search_fields = ("name", "created_by_label")
    list_filter = ("state", "result", "end_reason")
    list_select_related = ("tenant",)
    ordering = ("-created_at",)


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    """Their attempts."""

    list_display = ("job", "no", "node", "state", "end_reason", "exit_code", "created_at")
    search_fields = ("job__name", "node__name")
    list_filter = ("state", "end_reason")
    list_select_related = (
        "node",
        "job",
    )
    ordering = ("-created_at",)
