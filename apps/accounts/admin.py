"""People on the admin site, to look at."""

from django.contrib import admin

from apps.accounts.models import Membership, User
from apps.core.admin import ReadOnlyAdmin


@admin.register(User)
class UserAdmin(ReadOnlyAdmin):
    """People."""

    list_display = ("email", "name", "is_operator", "is_active", "created_at")
    search_fields = ("email", "name")
    list_filter = ("is_operator", "is_active")
    ordering = ("email",)


@admin.register(Membership)
class MembershipAdmin(ReadOnlyAdmin):
    """Who belongs where."""

    list_display = ("user", "tenant", "role", "created_at")
    search_fields = ("user__email", "tenant__slug")
    list_filter = ("role",)
    list_select_related = (
        "tenant",
        "user",
    )
    ordering = ("user",)
