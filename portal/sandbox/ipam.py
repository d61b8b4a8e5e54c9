"""Names and addresses of a cluster's nodes; pure functions."""

import hashlib
import ipaddress
import re
from collections.abc import Iterable

from portal.sandbox.errors import SandboxError

FIRST_HOST = 10  # .1 is the machine itself, .2 to .9 stay free for test helpers
LAST_HOST = 250
_CLUSTER_NAME = re.compile(r"[a-z][a-z0-9]{0,7}")
_NODE_NAME = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?")


def check_cluster_name(name: str) -> str:
    """Return the name or raise: it starts link names, which the kernel cuts at 15 characters."""
    if not _CLUSTER_NAME.fullmatch(name):
        raise SandboxError(f"cluster name {name!r}: use 1 to 8 lower-case letters or digits, a letter first")
    return name


def check_node_name(name: str) -> str:
    """Return the name or raise: it becomes a host name and a folder."""
    if not _NODE_NAME.fullmatch(name):
        raise SandboxError(f"node name {name!r}: use up to 32 lower-case letters, digits and '-', a letter first")
    return name


def parse_subnet(text: str) -> ipaddress.IPv4Network:
    """Return the cluster's network or raise: a private IPv4 /24."""
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise SandboxError(f"subnet {text!r} is not an IPv4 network such as 10.77.0.0/24") from error
    if network.prefixlen != 24 or not network.is_private:
        raise SandboxError(f"subnet {text!r}: use a private /24 such as 10.77.0.0/24")
    return network


def next_host(taken: Iterable[int]) -> int:
    """Return the lowest free host number of the subnet."""
    used = set(taken)
    for host in range(FIRST_HOST, LAST_HOST + 1):
        if host not in used:
            return host
    raise SandboxError(f"the subnet is full: {LAST_HOST - FIRST_HOST + 1} nodes exist")


def gateway(network: ipaddress.IPv4Network) -> str:
    """Return the machine's own address in the cluster's network."""
    return str(network[1])


def address(network: ipaddress.IPv4Network, host: int) -> str:
    """Return the address of a host number."""
    return str(network[host])


def bridge_name(cluster: str) -> str:
    """Return the name of the cluster's bridge."""
    return f"{cluster}-br"


def link_name(cluster: str, host: int) -> str:
    """Return the name of the machine's end of a node's cable."""
    return f"{cluster}-n{host}"


def mac_address(cluster: str, host: int) -> str:
    """Return a locally administered MAC address.

    It follows from the address, not from the node: a new node that gets the address of a removed one would otherwise
    be unreachable until the neighbours' ARP entries have aged.
    """
    digest = hashlib.sha256(cluster.encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (0x02, *digest[:4], host))
