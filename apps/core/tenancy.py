"""Whose rows a transaction may see: row-level security is steered from here only.

Policies read two settings that live as long as the transaction: `berth.tenant` and `berth.system`.
Without either, a query of a tenant table reads nothing and writes nothing.
"""

import contextlib
import uuid
from collections.abc import Iterator

from django.db import connection, transaction


class ScopeError(RuntimeError):
    """Code asked for a scope that would widen or cross the one that is open."""


def _settings() -> tuple[str, str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('berth.tenant', true), current_setting('berth.system', true)")
        tenant, system = cursor.fetchone()
    return tenant or "", system or ""


def _set(tenant: str, system: str) -> None:
    with connection.cursor() as cursor:
        # true = for this transaction only; false would leak to the pool's next user of the connection
        cursor.execute(
            "SELECT set_config('berth.tenant', %s, true), set_config('berth.system', %s, true)", [tenant, system]
        )


@contextlib.contextmanager
def _scope(tenant: str, system: str) -> Iterator[None]:
    nested = connection.in_atomic_block
    with transaction.atomic():
        before = _settings() if nested else ("", "")
        if before == (tenant, system):
            yield
            return
        if before != ("", "") and before[1] != "on":
            raise ScopeError("a tenant's scope can't be left for another one inside its transaction")
        _set(tenant, system)
        try:
            yield
        finally:
            if nested and not connection.needs_rollback:
                _set(*before)


@contextlib.contextmanager
def tenant_scope(tenant_id: uuid.UUID) -> Iterator[None]:
    """Opens a transaction that sees the rows of one tenant only; inside a system scope it narrows."""
    with _scope(str(tenant_id), ""):
        yield


@contextlib.contextmanager
def system_scope() -> Iterator[None]:
    """Opens a transaction that sees all tenants; for workers, operators and sign-in, never for a tenant's request."""
    with _scope("", "on"):
        yield
