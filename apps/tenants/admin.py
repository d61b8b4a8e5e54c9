"""Tenants on the admin site, to look at."""

from django.contrib import admin

from apps.core.admin import ReadOnlyAdmin
from apps.tenants.models import QuotaUse, Tenant


@admin.register(Tenant)
class TenantAdmin(ReadOnlyAdmin):
    """Tenants."""

    list_display = ("slug", "name", "created_at")
    search_fields = ("slug", "name")
    ordering = ("slug",)


@admin.register(QuotaUse)
class QuotaUseAdmin(ReadOnlyAdmin):
    """Their counters."""

    list_display = ("tenant", "resource", "used", "ceiling")
    search_fields = ("tenant__slug",)
    list_filter = ("resource",)
    list_select_related = ("tenant",)
    ordering = ("tenant",)
