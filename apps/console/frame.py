"""What the frame around every page shows."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from apps.accounts.pages import visitor_of


def frame(request: HttpRequest) -> dict[str, Any]:
    """Context processor: the visitor, the theme and the place in the menu."""
    theme = request.COOKIES.get("berth_theme", "auto")
    return {
        "visitor": visitor_of(request),
        "theme": theme if theme in ("light", "dark") else "auto",
        "here": request.path.split("/", 2)[1],
        "public_url": settings.BERTH_PUBLIC_URL,
    }
