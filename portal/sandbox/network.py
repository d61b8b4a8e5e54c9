"""The cluster's switch and the nodes' cables."""

import json
from ipaddress import IPv4Network
from pathlib import Path

from portal.sandbox import ipam
from portal.sandbox.errors import SandboxError
from portal.sandbox.shell import run

_IFF_UP = 1
_ALIAS_CHARACTERS = 250


def exists(link: str) -> bool:
    """Return whether a link of this name exists on the machine."""
    return Path("/sys/class/net", link).exists()


def is_up(link: str) -> bool:
    """Return whether the machine's end of a cable is switched on."""
    try:
        return bool(int(Path("/sys/class/net", link, "flags").read_text(), 16) & _IFF_UP)
    except OSError:
        return False


def belongs_to(bridge: str, owner: str) -> bool:
    """Return whether a bridge carries this owner's mark, or none."""
    file = Path("/sys/class/net", bridge, "ifalias")
    mark = file.read_text().strip() if file.exists() else ""
    return mark in ("", owner[-_ALIAS_CHARACTERS:])


def ensure_bridge(cluster: str, network: IPv4Network, *, owner: str) -> None:
    """Make the cluster's bridge with the machine's address in it; raise when its name or network is in use elsewhere.

    `owner` is the state folder: two clusters of one name would take each other's nodes for their own.
    """
    bridge = ipam.bridge_name(cluster)
    if exists(bridge):
        if not belongs_to(bridge, owner):
            raise SandboxError(f"another cluster on this machine is called {cluster!r}; choose another --name")
        return
    for link in json.loads(run(["ip", "-json", "-4", "addr"])):
        for entry in link.get("addr_info", []):
            other = IPv4Network(f"{entry['local']}/{entry['prefixlen']}", strict=False)
            if other.overlaps(network):
                raise SandboxError(f"{network} is already used by {link['ifname']}; choose another --subnet")
    run(["ip", "link", "add", bridge, "type", "bridge"])
    run(["ip", "link", "set", bridge, "alias", owner[-_ALIAS_CHARACTERS:]])
    run(["ip", "addr", "add", f"{ipam.gateway(network)}/{network.prefixlen}", "dev", bridge])
    filter_switch = Path("/sys/class/net", bridge, "bridge/nf_call_iptables")
    if filter_switch.exists():
        filter_switch.write_text("0")  # the machine's own firewall must not judge frames between two nodes
    run(["ip", "link", "set", bridge, "up"])


def attach(link: str, *, bridge: str, pid: int, mac: str, address: str, network: IPv4Network) -> None:
    """Plug a node in: `eth0` inside the network namespace of `pid`, the other end on the bridge."""
    run(["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "address", mac, "netns", str(pid)])
    run(["ip", "link", "set", link, "master", bridge, "up"])
    run(["ip", "neigh", "flush", "to", address, "dev", bridge])  # what answered there before may be gone
    inside = [
        "link set lo up",
        f"addr add {address}/{network.prefixlen} dev eth0",
        "link set eth0 up",
        f"route add default via {ipam.gateway(network)}",
    ]
    run(["nsenter", "-t", str(pid), "-n", "ip", "-batch", "-"], input_text="\n".join(inside) + "\n")


def set_link(link: str, *, up: bool) -> None:
    """Switch the machine's end of a cable on or off."""
    run(["ip", "link", "set", link, "up" if up else "down"])


def remove(link: str) -> None:
    """Remove a link; nothing happens when it is gone already."""
    if exists(link):
        run(["ip", "link", "del", link], check=False)
    if exists(link):
        raise SandboxError(f"link {link} does not go away")


def slow(link: str, pid: int, *, rate: str, latency_ms: int) -> None:
    """Throttle both directions to `rate` with a queue of at most `latency_ms`."""
    shape = ["root", "tbf", "rate", rate, "burst", "16kb", "latency", f"{latency_ms}ms"]
    run(["tc", "qdisc", "replace", "dev", link, *shape])
    run(["nsenter", "-t", str(pid), "-n", "tc", "qdisc", "replace", "dev", "eth0", *shape])


def unslow(link: str, pid: int) -> None:
    """Remove the throttle of both directions; nothing happens when there is none."""
    run(["tc", "qdisc", "del", "dev", link, "root"], check=False)
    run(["nsenter", "-t", str(pid), "-n", "tc", "qdisc", "del", "dev", "eth0", "root"], check=False)


def is_slow(link: str) -> bool:
    """Return whether the cable is throttled."""
    return exists(link) and " tbf " in run(["tc", "qdisc", "show", "dev", link])
