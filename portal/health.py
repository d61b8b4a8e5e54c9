"""Whether this process lives, and whether it can serve."""

import redis
from django.db import Error, connection
from django.http import HttpRequest, JsonResponse

from portal.settings import SERVERS


def healthz(request: HttpRequest) -> JsonResponse:
    """Says that the process answers."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> JsonResponse:
    """Says whether database and Redis answer too; 503 names the one that doesn't."""
    checks = {"database": _database(), "redis": _redis()}
    fine = all(value == "ok" for value in checks.values())
    return JsonResponse({"status": "ok" if fine else "not ready", **checks}, status=200 if fine else 503)


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        return "does not answer"
    return "ok"


def _redis() -> str:
    client = redis.Redis.from_url(SERVERS.redis_url, socket_timeout=2)
    try:
        client.ping()
    except redis.RedisError:
        return "does not answer"
    finally:
        client.close()
    return "ok"
