"""How the web process runs Django for one request: in one hop to a thread, not in one per middleware."""

from typing import Any

import django
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase


class OneHopHandler(ASGIHandler):
    """All middleware and views here are plain functions.

    Django's own handler would run each of them by itself in the request's thread: some twenty changes between loop
    and thread for a request, which cost more than the request's queries.
    """

    def load_middleware(self, is_async: bool = False) -> None:
        """Builds the chain for threads, whatever is asked."""
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> Any:
        """Runs the whole chain in the request's own thread."""
        answer: HttpResponseBase = await sync_to_async(self.get_response, thread_sensitive=True)(request)
        return answer


def http_handler() -> OneHopHandler:
    """Returns Django's HTTP application; sets Django up."""
    django.setup(set_prefix=False)
    return OneHopHandler()
