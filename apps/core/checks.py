"""System checks: the database must be able to keep tenants apart."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import connections, models


def tenant_tables() -> dict[str, type[models.Model]]:
    """Returns the tables of Berth's models that carry a tenant's id, by name."""
    found = {}
    for model in apps.get_models():
        if model.__module__.startswith("apps.") and any(f.attname == "tenant_id" for f in model._meta.concrete_fields):
            found[model._meta.db_table] = model
    return found


@register(Tags.database)
def database_keeps_tenants_apart(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Fails for a role that row-level security does not bind, and for a tenant table without its policy."""
    messages: list[CheckMessage] = []
    for alias in databases or []:
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
            if cursor.fetchone()[0]:
                messages.append(
                    Error(
                        "DATABASE_URL signs in as a role that row-level security does not bind.",
                        hint="Make its owner by CREATE ROLE berth LOGIN NOSUPERUSER NOBYPASSRLS PASSWORD '…'.",
                        id="berth.E001",
                    )
                )
            cursor.execute(
                "SELECT relname FROM pg_class c WHERE relkind = 'r' AND relname = ANY(%s) AND NOT (relrowsecurity"
                " AND relforcerowsecurity AND EXISTS (SELECT 1 FROM pg_policy WHERE polrelid = c.oid))",
                [sorted(tenant_tables())],
            )
            messages += [
                Error(f"The tenant table {name} has no row-level-security policy.", id="berth.E002")
                for (name,) in cursor.fetchall()
            ]
    return messages
