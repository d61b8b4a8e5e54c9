"""WebSocket routes."""

from collections.abc import Awaitable, Callable
from typing import Any

from django.urls import path, re_path

from apps.console.consumers import live


async def _nowhere(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Refuses a socket at an unknown address, without a traceback in the log."""
    await receive()
    await send({"type": "websocket.close", "code": 4404})


websocket_urlpatterns = [path("ws/live", live), re_path("", _nowhere)]  # type: ignore[arg-type]
