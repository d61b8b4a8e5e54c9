"""The audit log on the admin site, to look at."""

from django.contrib import admin

from apps.audit.models import AuditEntry
from apps.core.admin import ReadOnlyAdmin


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    """Who did what."""

    list_display = ("at", "actor_label", "action", "object_kind", "object_label", "outcome", "address")
    search_fields = ("actor_label", "object_label", "action")
    list_filter = ("action", "outcome")
    ordering = ("-at",)
