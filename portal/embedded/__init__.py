"""Berth's own PostgreSQL and Redis-protocol server, or the operator's: one answer to "where are the servers?".

servers = resolve(load())          # URLs, whether or not anything runs
servers = start(load())            # start what is Berth's own, check what is not
stop(load()); status(load())
"""

from __future__ import annotations

from dataclasses import dataclass, field

from portal.embedded import external, layout, locks, postgres, redis_server
from portal.embedded.errors import AlreadyRunningError, EmbeddedError
from portal.embedded.launch import start_detached, stop_locked, wait_ready
from portal.embedded.options import PRODUCTION, TESTS, Options
from portal.env import Env

__all__ = [
    "PRODUCTION",
    "TESTS",
    "AlreadyRunningError",
    "EmbeddedError",
    "Options",
    "ServerStatus",
    "Servers",
    "check_external",
    "ensure",
    "resolve",
    "start",
    "status",
    "stop",
]


@dataclass(frozen=True)
class Servers:
    """Addresses with passwords: `redis_url` for redis-py and channels_redis, `broker_url` for Celery."""

    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)
    broker_url: str = field(repr=False)


@dataclass(frozen=True)
class ServerStatus:
    """One server as seen from outside; `pid` is known for embedded ones that run."""

    name: str
    embedded: bool
    running: bool
    pid: int | None
    where: str


def resolve(env: Env) -> Servers:
    """Return the addresses of the servers, external where given, else the embedded ones (running or not)."""
    place = layout.find(env)
    redis_url = env.redis_url or redis_server.url(env, place)
    return Servers(env.database_url or postgres.url(env, place), redis_url, external.broker_url(redis_url))


def start(env: Env, options: Options = PRODUCTION) -> Servers:
    """Start the embedded servers detached and wait until they answer; check external ones.

    Raises AlreadyRunningError on a second start, EmbeddedError when a server can't be used.
    """
    check_external(env)
    started = False
    if not env.database_url:
        _start_postgres(env, layout.settle(env), options)
        started = True
    if not env.redis_url:
        try:
            _start_redis(env, layout.settle(env), options)
        except BaseException:
            if started:
                _stop_postgres(layout.find(env))
            raise
    return resolve(env)


def ensure(env: Env, options: Options = PRODUCTION) -> Servers:
    """Start only those embedded servers that do not run; callers keep each other out by a lock of their own."""
    check_external(env)
    running = {row.name for row in status(env) if row.running}
    if "postgres" not in running:
        _start_postgres(env, layout.settle(env), options)
    if "redis" not in running:
        _start_redis(env, layout.settle(env), options)
    return resolve(env)


def check_external(env: Env) -> None:
    """Raise EmbeddedError when a server that the operator named can't be used."""
    if env.database_url:
        external.check_postgres(env.database_url)
    if env.redis_url:
        external.check_redis(env.redis_url)


def stop(env: Env) -> bool:
    """Stop the embedded servers of the data folder, redis first; False when none ran."""
    place = layout.find(env)
    redis_ran = _stop_redis(place)
    postgres_ran = _stop_postgres(place)
    return redis_ran or postgres_ran


def status(env: Env) -> list[ServerStatus]:
    """Return what runs on the data folder."""
    place = layout.find(env)
    rows = []
    for name, url, path, where in (
        ("postgres", env.database_url, postgres.lock_path(place), place.postgres),
        ("redis", env.redis_url, redis_server.lock_path(place), place.redis),
    ):
        if url:
            rows.append(ServerStatus(name, embedded=False, running=True, pid=None, where="external"))
        else:
            running = locks.is_held(path)
            rows.append(ServerStatus(name, True, running, locks.noted_pid(path) if running else None, str(where)))
    return rows


def _start_postgres(env: Env, place: layout.Layout, options: Options) -> None:
    log = postgres.log_path(place)
    child = start_detached(postgres.launch(env, place, options), log)
    wait_ready(child, lambda: postgres.probe(env, place), what="PostgreSQL", log=log, seconds=postgres.START_SECONDS)


def _stop_postgres(place: layout.Layout) -> bool:
    path = postgres.lock_path(place)
    return stop_locked(path, postgres.STOP_SIGNAL, what="PostgreSQL", seconds=postgres.STOP_SECONDS)


def _stop_redis(place: layout.Layout) -> bool:
    path = redis_server.lock_path(place)
    return stop_locked(path, redis_server.STOP_SIGNAL, what=redis_server.TITLE, seconds=redis_server.STOP_SECONDS)


def _start_redis(env: Env, place: layout.Layout, options: Options) -> None:
    log = redis_server.log_path(place)
    child = start_detached(redis_server.launch(env, place, options), log)
    seconds = redis_server.START_SECONDS
    wait_ready(child, lambda: redis_server.probe(env, place), what=redis_server.TITLE, log=log, seconds=seconds)
