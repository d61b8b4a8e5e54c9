"""The PostgreSQL and Redis of test runs: one pair per working tree, shared by all runs, stopped by the last.

Each run (a pytest process, or the controller of xdist's workers) has its own database names, Redis database and
data folder, so that several people may test in one tree at the same time. A run that was killed leaves only names
and a folder behind, which the next run removes: its lock is free.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psycopg
import redis
from psycopg import sql

from portal import embedded
from portal.embedded.external import with_database, with_database_name
from portal.embedded.locks import FileLock, acquire
from portal.env import Env, load

T = TypeVar("T")
LOCK_SECONDS = 120.0
EXTERNAL_REDIS_DATABASES = 16


class TestServersError(Exception):
    """The servers for tests can't be used; the message says what to do."""

    __test__ = False


@dataclass
class Run:
    """What one test run holds; `end()` gives all of it back."""

    id: str
    base: Path
    env: Env
    servers: embedded.Servers
    locks: list[FileLock]

    @property
    def folder(self) -> Path:
        """Folder of this run's files."""
        return self.base / "runs" / self.id

    def end(self) -> None:
        """Drop this run's databases and folder; stop the servers when no other run uses them."""
        _drop_databases(self.servers.database_url, self.id)
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.base / "locks" / f"run-{self.id}.lock").unlink(missing_ok=True)
        for lock in self.locks:
            lock.release()
        _exclusively(self.base, lambda: _stop_if_unused(self.base, self.env))


def begin(base: Path, environ: dict[str, str]) -> Run:
    """Start or join the servers below `base` and claim names for one run."""
    given = {name: environ.get(f"TEST_{name}", "") for name in ("DATABASE_URL", "REDIS_URL")}
    env = load({"BERTH_DATA_DIR": str(base), **given})
    run_id = f"{os.getpid()}_{secrets.token_hex(2)}"

    def join() -> tuple[list[FileLock], embedded.Servers]:
        held = [_lock(base, "users", shared=True), _lock(base, f"run-{run_id}")]
        servers = embedded.ensure(env, embedded.TESTS)
        _sweep(base, servers.database_url)
        return held, servers

    locks, servers = _exclusively(base, join)
    run = Run(id=run_id, base=base, env=env, servers=servers, locks=locks)
    run.folder.mkdir(parents=True)
    return run


def database_url(run_servers_url: str, run_id: str) -> str:
    """Return the URL whose database name Django turns into this run's test database."""
    return with_database_name(run_servers_url, f"berth_{run_id}")


def claim_redis(base: Path, redis_url: str, *, external: bool) -> tuple[str, FileLock]:
    """Return the URL of an empty Redis database that no other test process uses, and the lock that keeps it so."""
    count = EXTERNAL_REDIS_DATABASES if external else embedded.TESTS.redis_databases
    for number in range(1, count):
        lock = acquire(base / "locks" / f"redis-{number}.lock")
        if lock is not None:
            url = with_database(redis_url, number)
            with redis.Redis.from_url(url) as client:
                client.flushdb()
            return url, lock
    raise TestServersError(f"All {count - 1} Redis databases for tests are in use: wait for another run to end.")


def _exclusively(base: Path, act: Callable[[], T]) -> T:
    lock = _lock(base, "start")
    try:
        return act()
    finally:
        lock.release()


def _lock(base: Path, name: str, *, shared: bool = False) -> FileLock:
    lock = acquire(base / "locks" / f"{name}.lock", wait_seconds=LOCK_SECONDS, shared=shared)
    if lock is None:
        raise TestServersError(f"{base}/locks/{name}.lock has been held for {LOCK_SECONDS:.0f} s: is a test run stuck?")
    return lock


def _stop_if_unused(base: Path, env: Env) -> None:
    alone = acquire(base / "locks" / "users.lock")
    if alone is not None:
        embedded.stop(env)
        alone.release()


def _sweep(base: Path, url: str) -> None:
    """Remove what runs that were killed have left."""
    for path in (base / "locks").glob("run-*.lock"):
        lock = acquire(path)
        if lock is None:
            continue
        run_id = path.name.removeprefix("run-").removesuffix(".lock")
        _drop_databases(url, run_id)
        shutil.rmtree(base / "runs" / run_id, ignore_errors=True)
        path.unlink(missing_ok=True)
        lock.release()


def _drop_databases(url: str, run_id: str) -> None:
    maintenance = with_database_name(url, "postgres")
    prefix = f"test_berth_{run_id}"
    with psycopg.connect(maintenance, autocommit=True, connect_timeout=10) as connection:
        rows = connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [prefix]).fetchall()
        for (name,) in rows:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
