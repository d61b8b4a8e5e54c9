"""Adding a node: its host key is confirmed by a person, then its enrolment is watched to the end."""

import sys
from collections.abc import Callable

from cli.client import Client
from cli.errors import ApiError, CliError, InputError
from cli.follow import Patience, WatchInterruptedError, is_outage
from cli.live import Live
from cli.nodes import Enrolment, Node, address, enrolment
from cli.watch import Watch

Confirm = Callable[[Node], bool]
UNREACHED_S = 15.0  # the portal's own look at an address that nobody answers takes 10 s


def watch_enrolment(
    client: Client, node: Node, *, expected: str, confirm: Confirm, wait: bool, timeout_s: float
) -> Node:
    """Follows a node until it is ready; raises CliError that says exactly what stops it.

    Without `wait` it ends once the host key is confirmed (or was given beforehand).
    """
    seen = Enrolment("busy", "")
    with Live(client) as live, Watch(f"Node {node['name']}") as watch:
        patience = Patience(watch.note)
        live.subscribe(f"node/{node['id']}")
        try:
            while True:
                seen = enrolment(node, expected=expected)
                if _over(node, seen, wait=wait, expected=expected):
                    return node
                if seen.phase == "confirm":
                    watch.hide()
                    node = _confirmed(client, node, confirm)
                    continue
                watch.show(node["state"], [seen.text])
                if seen.phase == "unreached" and watch.elapsed_s > UNREACHED_S:
                    raise _unreached(node, seen)
                if watch.elapsed_s > timeout_s:
                    raise _slow(node, seen, timeout_s)
                live.wait()
                try:
                    node = client.get(f"/nodes/{node['id']}")
                    patience.answered()
                except CliError as error:
                    if not is_outage(error):
                        raise
                    live.wait(patience.failed(error, f"berth node show {node['name']}"))
        except KeyboardInterrupt:
            watch.hide()
            raise WatchInterruptedError(
                f"Stopped watching; node {node['name']} goes on enrolling ({seen.text}).",
                lines=[f"See how it stands:  berth node show {node['name']}",
                       f"Give it up:         berth node retire {node['name']}"],
            ) from None  # fmt: skip


def _over(node: Node, seen: Enrolment, *, wait: bool, expected: str) -> bool:
    if seen.phase == "blocked":
        raise CliError(
            seen.text, lines=seen.lines,
            hint=f"Mend it, then: berth node show {node['name']}   Or give it up: berth node retire {node['name']}",
        )  # fmt: skip
    settled = bool(node["host_key_fingerprint"] or expected)
    return seen.phase == "ready" or (not wait and settled)


def _confirmed(client: Client, node: Node, confirm: Confirm) -> Node:
    if not confirm(node):
        raise CliError(
            "The host key was not confirmed, so nothing was sent to the node.",
            hint=f"Confirm it later: berth node trust {node['name']}   Give it up: berth node retire {node['name']}",
        )
    return trust(client, node)


def trust(client: Client, node: Node) -> Node:
    """Pins the host key that the node shows; fine when someone confirmed the same key meanwhile."""
    fingerprint = node["offered_fingerprint"]
    try:
        return dict(client.post(f"/nodes/{node['id']}/trust", {"fingerprint": fingerprint}))
    except ApiError as error:
        now = client.get(f"/nodes/{node['id']}") if error.status == 409 else {}
        if now.get("host_key_fingerprint") != fingerprint:
            raise
        return dict(now)


def _unreached(node: Node, seen: Enrolment) -> CliError:
    return CliError(
        f"Node {node['name']} does not answer at {address(node)}: {seen.text}.",
        lines=[f"The address is wrong: berth node retire {node['name']}, then add it again.",
               "It is switched off or behind a firewall: mend that; the portal tries again every few seconds."],
        hint=f"See how it stands: berth node show {node['name']}",
    )  # fmt: skip


def _slow(node: Node, seen: Enrolment, timeout_s: float) -> CliError:
    return CliError(
        f"Node {node['name']} is not ready after {timeout_s:g} s: {seen.text}.",
        hint=f"Enrolment goes on. See: berth node show {node['name']}   Give it up: berth node retire {node['name']}",
    )


def ask(node: Node) -> bool:
    """Shows the host key and asks on the terminal whether it is the right one."""
    fingerprint = node["offered_fingerprint"]
    if not sys.stdin.isatty():
        raise InputError(
            f"Node {node['name']} shows host key {fingerprint}, which someone must confirm.",
            hint=f"If it is right: berth node trust {node['name']} --fingerprint {fingerprint}",
        )
    sys.stderr.write(
        f"Node {node['name']} ({node['address']}) shows this host key:\n"
        f"  {fingerprint}\n"
        "Compare it with the node's own: on its console, run\n"
        "  for f in /etc/ssh/ssh_host_*_key.pub; do ssh-keygen -lf $f; done\n"
        "Is it the same? [y/N] "
    )
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
