"""Row-level security as a migration step: every tenant table names it in the migration that creates it."""

from django.db.migrations.operations import RunSQL

_CONDITION = (
    "{column} = NULLIF(current_setting('berth.tenant', true), '')::uuid OR current_setting('berth.system', true) = 'on'"
)


def tenant_policy(table: str, column: str = "tenant_id") -> RunSQL:
    """Returns the step that lets a transaction see only the rows of its tenant; binds the table's owner too."""
    condition = _CONDITION.format(column=column)
    return RunSQL(
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;"
        f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY;"
        f"CREATE POLICY tenant_isolation ON {table} USING ({condition}) WITH CHECK ({condition});",
        f"DROP POLICY tenant_isolation ON {table};"
        f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY;"
        f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY;",
    )


def append_only(table: str) -> RunSQL:
    """Returns the step that takes UPDATE and DELETE on the table away from the application's role."""
    return RunSQL(
        f"REVOKE UPDATE, DELETE ON {table} FROM CURRENT_USER;", f"GRANT UPDATE, DELETE ON {table} TO CURRENT_USER;"
    )
