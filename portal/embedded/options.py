"""How embedded servers are made for production and for tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """`durable=False` skips fsync, `createdb` lets the role create databases, both for tests only."""

    durable: bool = True
    createdb: bool = False
    redis_databases: int = 16


PRODUCTION = Options()
TESTS = Options(durable=False, createdb=True, redis_databases=1024)
