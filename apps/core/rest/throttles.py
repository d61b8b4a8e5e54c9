"""Limits on how often one person or address asks; without Redis nobody is refused."""

from typing import TYPE_CHECKING

import structlog
from redis.exceptions import RedisError
from rest_framework.request import Request
from rest_framework.throttling import ScopedRateThrottle, SimpleRateThrottle, UserRateThrottle

if TYPE_CHECKING:  # rest_framework.views itself imports this module by its settings
    from rest_framework.views import APIView

log = structlog.get_logger(__name__)


class _Open(SimpleRateThrottle):
    """Lets requests pass while the counter's store does not answer."""

    def allow_request(self, request: Request, view: "APIView") -> bool:
        try:
            return super().allow_request(request, view)
        except RedisError as error:
            log.warning("throttle.open", error=str(error))
            return True


class PerUser(_Open, UserRateThrottle):
    """Per person; anonymous requests count by address."""


class PerScope(_Open, ScopedRateThrottle):
    """Requests of one kind (`throttle_scope` of the view), per person or address."""
