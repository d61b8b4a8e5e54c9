"""The verbs of GPUs, for operators."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.commands.node import operators_only
from cli.shell import Shell, group, verb

app = group("Look at the GPUs of all nodes (operators).")


@verb(app, "ls", examples="berth gpu ls\nberth gpu ls --node gpu-01\nberth gpu ls --sick --json")
def gpu_list(
    shell: Shell,
    node: Annotated[str, typer.Option(help="Only of this node.", show_default=False)] = "",
    sick: Annotated[bool, typer.Option("--sick", help="Only those that are not in the offer.")] = False,
) -> None:
    """List the GPUs: model, health with its reason, and whose job runs there."""
    from cli.nodes import GPU_COLUMNS, gpu_rows

    if node:
        nodes: list[dict[str, Any]] = [operators_only(lambda: shell.client.get(f"/nodes/{node}"))]
    else:
        nodes, _ = operators_only(lambda: shell.client.pages("/nodes", limit=None))
    rows: list[Mapping[str, Any]] = [row for row in gpu_rows(nodes) if not sick or row["health"] != "ok"]
    shell.rows(rows, GPU_COLUMNS, name="uuid", empty="No GPU is sick." if sick else "No GPUs yet.")
