"""The verbs of nodes, for operators."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

import typer

from cli.commands import submit
from cli.errors import ApiError, InputError
from cli.shell import Shell, group, verb

T = TypeVar("T")
app = group("Add and look after nodes (operators).")

NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="Name or id.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Shown to others.", show_default=False)]
STATES = ("enrolling", "ready", "cordoned", "draining", "unreachable", "down", "maintenance", "retired")
ONLY_OPERATORS = "Nodes are shown to operators only; see who you are: berth whoami"

ADD_EXAMPLES = """
berth node add gpu-01 10.0.0.11
berth node add gpu-01 10.0.0.11 --fingerprint SHA256:… --user admin --port 2222
berth node add gpu-01 10.0.0.11 --password-stdin < password.txt
"""


@verb(app, "add", examples=ADD_EXAMPLES)
def node_add(
    shell: Shell,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name in Berth.")],
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Host name or IP address.")],
    user: Annotated[str, typer.Option(help="Login on the node.")] = "root",
    port: Annotated[int, typer.Option(help="SSH port.", min=1, max=65535)] = 22,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read a password, used once to install the portal's key.")
    ] = False,
    fingerprint: Annotated[
        str, typer.Option(metavar="SHA256:…", help="Its host key, trusted without asking.", show_default=False)
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Trust whatever host key it shows.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until it is ready.")] = True,
    timeout: Annotated[str, typer.Option(help="Stop watching after this long.")] = "10m",
) -> None:
    """Add a machine by its SSH address: confirm its host key, then watch it become ready.

    Without a password the portal's own key must stand in the login's authorized_keys.
    """
    from cli import enrol

    limit = submit.read_duration("--timeout", timeout) or 0
    if fingerprint and not fingerprint.startswith("SHA256:"):
        raise InputError("--fingerprint must begin with SHA256:", hint="Take it as ssh-keygen -lf prints it.")
    body: dict[str, Any] = {"name": name, "address": address, "port": port, "ssh_user": user}
    if fingerprint:
        body["expected_fingerprint"] = fingerprint
    if password_stdin:
        from cli.commands.account import read_password

        body["password"] = read_password(f"Password of {user}@{address}: ")
    node = operators_only(lambda: shell.client.post("/nodes", body))
    shell.note(f"Node {name} is being added.")
    confirm = (lambda one: _trusting(shell, one)) if yes else enrol.ask
    node = enrol.watch_enrolment(shell.client, node, expected=fingerprint, confirm=confirm, wait=wait, timeout_s=limit)
    shell.done(node, _added(node), name="name")


def _trusting(shell: Shell, node: Mapping[str, Any]) -> bool:
    shell.note(f"Trusting host key {node['offered_fingerprint']} as you asked.")
    return True


def _added(node: Mapping[str, Any]) -> str:
    from cli.nodes import models

    gpus = f" with {models(node)}" if node["gpus"] else ""
    if node["state"] == "enrolling":
        return f"Node {node['name']} is enrolling. See how it stands: berth node show {node['name']}"
    return f"Node {node['name']} is {node['state']}{gpus}."


def operators_only(call: Callable[[], T]) -> T:
    """Makes a call; one that is refused says that nodes are for operators."""
    try:
        return call()
    except ApiError as error:
        if error.status == 403:
            error.hint = error.hint or ONLY_OPERATORS
        if error.status == 404:  # the portal tells strangers of the platform no more than this
            error.hint = error.hint or f"See what there is: berth node ls. {ONLY_OPERATORS}"
        raise


@verb(app, "trust", examples="berth node trust gpu-01 --fingerprint SHA256:…")
def node_trust(
    shell: Shell,
    node: NodeArgument,
    fingerprint: Annotated[
        str, typer.Option(metavar="SHA256:…", help="The right host key; asked for if left out.", show_default=False)
    ] = "",
) -> None:
    """Confirm the host key of a node that is being added."""
    from cli import enrol

    found = _get(shell, node)
    shown = found["offered_fingerprint"]
    if found["host_key_fingerprint"]:
        shell.done(found, f"The host key of {found['name']} is confirmed already.", name="name")
        return
    if not shown:
        raise InputError(f"Node {found['name']} has not shown a host key yet: {found['state_detail']}.")
    if fingerprint and fingerprint != shown:
        raise InputError(f"Node {found['name']} shows {shown}, not {fingerprint}. Nothing was confirmed.")
    if not fingerprint and not enrol.ask(found):
        raise InputError("Not confirmed.")
    shell.done(enrol.trust(shell.client, found), f"The host key of {found['name']} is confirmed.", name="name")


@verb(app, "ls", examples="berth node ls\nberth node ls --state unreachable --json")
def node_list(
    shell: Shell, state: Annotated[str, typer.Option(help="Only nodes in this state.", show_default=False)] = ""
) -> None:
    """List the nodes."""
    from cli.nodes import COLUMNS
    from cli.spec import did_you_mean

    if state and state not in STATES:
        hint = did_you_mean(state, STATES) or f"States: {', '.join(STATES)}."
        raise InputError(f"There is no state {state!r}.", hint=hint)
    nodes, _ = operators_only(lambda: shell.client.pages("/nodes", limit=None, state=state))
    empty = "No node fits." if state else "No nodes yet. Add one: berth node add NAME ADDRESS"
    shell.rows(nodes, COLUMNS, name="name", empty=empty)


@verb(app, "show", examples="berth node show gpu-01")
def node_show(shell: Shell, node: NodeArgument) -> None:
    """Show one node: its state, GPUs, what runs there, and what is to be mended."""
    from cli.nodes import facts

    found = _get(shell, node)
    shell.facts(found, facts(found), name="name")


@verb(app, "cordon", examples="berth node cordon gpu-01 --reason 'new cable'")
def node_cordon(shell: Shell, node: NodeArgument, reason: ReasonOption = "") -> None:
    """Give a node no new jobs; what runs goes on."""
    _act(shell, node, "cordon", "gets no new jobs; what runs goes on", {"reason": reason})


@verb(app, "uncordon", examples="berth node uncordon gpu-01")
def node_uncordon(shell: Shell, node: NodeArgument) -> None:
    """Give a node jobs again."""
    _act(shell, node, "uncordon", "takes jobs again", {})


@verb(app, "drain", examples="berth node drain gpu-01 --reason 'driver update'")
def node_drain(shell: Shell, node: NodeArgument, reason: ReasonOption = "") -> None:
    """Give a node no new jobs and empty it: it is drained when its jobs have ended."""
    _act(shell, node, "drain", "gets no new jobs and waits for its own to end", {"reason": reason})


@verb(app, "maintenance", examples="berth node maintenance gpu-01 --reason 'new fans'\nberth node uncordon gpu-01")
def node_maintenance(shell: Shell, node: NodeArgument, reason: ReasonOption = "") -> None:
    """Put an idle node into maintenance, until it is uncordoned."""
    _act(shell, node, "maintenance", "is in maintenance until it is uncordoned", {"reason": reason})


@verb(app, "retire", examples="berth node retire gpu-01")
def node_retire(shell: Shell, node: NodeArgument) -> None:
    """Take a node out of service for good."""
    _act(shell, node, "retire", "is out of service for good", {})


def _act(shell: Shell, reference: str, what: str, outcome: str, body: dict[str, str]) -> None:
    given = {key: value for key, value in body.items() if value}
    node = operators_only(lambda: shell.client.post(f"/nodes/{_quoted(reference)}/{what}", given))
    shell.done(node, f"Node {node['name']} {outcome}.", name="name")


def _get(shell: Shell, reference: str) -> Mapping[str, Any]:
    node: Mapping[str, Any] = operators_only(lambda: shell.client.get(f"/nodes/{_quoted(reference)}"))
    return node


def _quoted(reference: str) -> str:
    from urllib.parse import quote

    return quote(reference, safe="")
