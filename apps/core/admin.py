"""What the admin site's pages have in common: they show everything to operators and change nothing."""

from collections.abc import Sequence
from typing import Any

from django.db import models
from django.http import HttpRequest, HttpResponse
from unfold.admin import ModelAdmin

from apps.core.tenancy import system_scope


class ReadOnlyAdmin(ModelAdmin):  # type: ignore[misc]
    """Rows of all tenants to look at; what changes them are the services, which keep events and audit."""

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody adds here."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Nobody changes here."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Nobody deletes here."""
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: models.Model | None = None) -> Sequence[str]:
        """All columns but sealed ones and passwords."""
        hidden = (models.BinaryField,)
        return [f.name for f in self.model._meta.concrete_fields if not isinstance(f, hidden) and f.name != "password"]

    def get_fields(self, request: HttpRequest, obj: models.Model | None = None) -> Sequence[str]:
        """The same columns."""
        return self.get_readonly_fields(request, obj)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Draws the list inside the scope that sees all tenants."""
        with system_scope():
            return _drawn(super().changelist_view(request, extra_context))

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Draws one row inside the scope that sees all tenants."""
        with system_scope():
            return _drawn(super().changeform_view(request, *args, **kwargs))


def _drawn(answer: Any) -> HttpResponse:
    """Renders now, while the scope is open; templates would otherwise query after it has closed."""
    drawn: HttpResponse = answer.render() if hasattr(answer, "render") else answer
    return drawn
