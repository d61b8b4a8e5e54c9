"""`berth quota`."""

import typer

from cli.shell import Shell, verb


def register(app: typer.Typer) -> None:
    """Adds the verb."""

    @verb(app, "quota", examples="berth quota")
    def quota(shell: Shell) -> None:
        """Show what the tenant uses and may use."""
        rows = shell.client.get("/quota")["results"]
        columns = [
            ("RESOURCE", lambda row: str(row["resource"])),
            ("USED", lambda row: str(row["used"])),
            ("CEILING", lambda row: "no limit" if row["ceiling"] is None else str(row["ceiling"])),
            ("LEFT", _left),
        ]
        shell.rows(rows, columns, name="resource", empty="No quota is set for this tenant.")


def _left(row: object) -> str:
    if not isinstance(row, dict) or row["ceiling"] is None:
        return ""
    return str(max(0, row["ceiling"] - row["used"]))
