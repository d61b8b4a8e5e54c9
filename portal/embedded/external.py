"""Checks of servers that the operator brings (DATABASE_URL, REDIS_URL)."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
import redis

from portal.embedded.errors import EmbeddedError

MIN_POSTGRES = 15
CONNECT_SECONDS = 5


def check_postgres(url: str) -> None:
    """Raise EmbeddedError unless the database is reachable, recent enough and bound by row-level security."""
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_SECONDS) as connection:
            version = connection.info.server_version // 10000
            role = connection.execute(
                "SELECT rolname, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
            ).fetchone()
    except psycopg.Error as error:
        raise EmbeddedError(
            f"DATABASE_URL: cannot connect ({_first_line(error)}). Check host, port, user and password."
        ) from None
    if version < MIN_POSTGRES:
        raise EmbeddedError(f"DATABASE_URL: PostgreSQL {version} is too old, {MIN_POSTGRES} or newer is needed.")
    name, is_super, bypasses = role if role is not None else ("?", False, False)
    if is_super or bypasses:
        why = "a superuser" if is_super else "a role with BYPASSRLS"
        raise EmbeddedError(
            f"DATABASE_URL: {name!r} is {why}, for whom row-level security does not hold, so tenants would not be "
            "separated. Create one: CREATE ROLE berth LOGIN PASSWORD '...'; CREATE DATABASE berth OWNER berth;"
        )


def check_redis(url: str) -> None:
    """Raise EmbeddedError unless the Redis-protocol server answers."""
    try:
        with redis.Redis.from_url(
            url, socket_timeout=CONNECT_SECONDS, socket_connect_timeout=CONNECT_SECONDS
        ) as client:
            client.ping()
    except (redis.RedisError, ValueError, OSError) as error:
        raise EmbeddedError(f"REDIS_URL: cannot connect ({_first_line(error)}). Check address and password.") from None


def broker_url(redis_url: str) -> str:
    """Return the form of a redis-py URL that Celery (kombu) takes; only unix sockets differ."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    query = dict(parse_qsl(parts.query))
    return urlunsplit(("redis+socket", parts.netloc, parts.path, urlencode({"virtual_host": query.get("db", "0")}), ""))


def with_database(redis_url: str, number: int) -> str:
    """Return the same Redis URL with another database number."""
    parts = urlsplit(redis_url)
    if parts.scheme == "unix":
        query = {**dict(parse_qsl(parts.query)), "db": str(number)}
        return urlunsplit((*parts[:3], urlencode(query), ""))
    return urlunsplit((*parts[:2], f"/{number}", *parts[3:]))


def with_database_name(database_url: str, name: str) -> str:
    """Return the same PostgreSQL URL with another database name."""
    parts = urlsplit(database_url)
    return urlunsplit((*parts[:2], f"/{quote(name)}", *parts[3:]))


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
