"""Triggers by which the database itself guards states and append-only tables; they have no ignore switch."""

from collections.abc import Iterable, Mapping

import pgtrigger
from django.db import models
from pgtrigger import compiler


class FirmTriggerSql(compiler.UpsertTriggerSql):
    """The SQL of a trigger that no setting can turn off (pgtrigger's own has an ignore list)."""

    def get_template(self) -> str:
        """Returns the template; never change it, migrations refer to it."""
        return """
            CREATE OR REPLACE FUNCTION {pgid}()
            RETURNS TRIGGER AS $$
                {declare}
                BEGIN
                    {func}
                END;
            $$ LANGUAGE plpgsql;

            DROP TRIGGER IF EXISTS {pgid} ON {table};
            CREATE {constraint} TRIGGER {pgid}
                {when} {operation} ON {table}
                {timing}
                {referencing}
                FOR EACH {level} {condition}
                EXECUTE PROCEDURE {execute};

            COMMENT ON TRIGGER {pgid} ON {table} IS '{hash}';
        """


class FirmTrigger(pgtrigger.Trigger):
    """A trigger without pgtrigger's ignore switch."""

    def compile(self, model: models.Model) -> compiler.Trigger:
        """Returns the compiled trigger with the firm template."""
        compiled = super().compile(model)
        kwargs = {k: v for k, v in compiled.sql.kwargs.items() if k != "ignore_func_name"}
        return compiler.Trigger(name=self.name, sql=FirmTriggerSql(**kwargs))


class StateMachine(FirmTrigger):
    """Refuses an INSERT outside the initial states and an UPDATE along no edge of the table of transitions."""

    when = pgtrigger.Before
    operation = pgtrigger.Insert | pgtrigger.Update

    def __init__(
        self, *, name: str, initial: Iterable[str], transitions: Mapping[str, Iterable[str]], field: str = "state"
    ) -> None:
        self.field = field
        self.initial = sorted(str(state) for state in initial)
        self.edges = sorted(f"{old}:{new}" for old, targets in transitions.items() for new in targets)
        super().__init__(name=name)

    def get_func(self, model: models.Model) -> str:
        """Returns the body that compares with the literal tables."""
        initial = ",".join(self.initial)
        edges = ",".join(self.edges)
        field = self.field
        return f"""
            IF TG_OP = 'INSERT' THEN
                IF NOT NEW.{field} = ANY('{{{initial}}}'::text[]) THEN
                    RAISE EXCEPTION 'berth: % can not begin in state %', TG_TABLE_NAME, NEW.{field}
                        USING ERRCODE = 'check_violation';
                END IF;
            ELSIF OLD.{field} IS DISTINCT FROM NEW.{field}
                AND NOT CONCAT(OLD.{field}, ':', NEW.{field}) = ANY('{{{edges}}}'::text[]) THEN
                RAISE EXCEPTION 'berth: % can not go from % to %', TG_TABLE_NAME, OLD.{field}, NEW.{field}
                    USING ERRCODE = 'check_violation';
            END IF;
            RETURN NEW;
        """


class AppendOnly(FirmTrigger):
    """Refuses UPDATE and DELETE of rows."""

    when = pgtrigger.Before
    operation = pgtrigger.Update | pgtrigger.Delete

    def get_func(self, model: models.Model) -> str:
        """Returns the body that always refuses."""
        return "RAISE EXCEPTION 'berth: % is append-only', TG_TABLE_NAME USING ERRCODE = 'check_violation';"


class NotifyOnInsert(FirmTrigger):
    """Wakes listeners of a channel once per inserting statement."""

    when = pgtrigger.After
    operation = pgtrigger.Insert
    level = pgtrigger.Statement

    def __init__(self, *, name: str, channel: str) -> None:
        self.channel = channel
        super().__init__(name=name)

    def get_func(self, model: models.Model) -> str:
        """Returns the body that notifies; PostgreSQL delivers at commit."""
        return f"PERFORM pg_notify('{self.channel}', ''); RETURN NULL;"
