"""What the node verbs share: a node's words and how its enrolment stands."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cli.output import Column, ago_text, mib_text, time_text

Node = Mapping[str, Any]
NOT_LOOKED = "fetching the host key"  # the portal's words until its first look at the address has ended


@dataclass(frozen=True)
class Enrolment:
    """Where adding a node stands: `ready`, `blocked` (it needs a person), `confirm` (the host key), `unreached` (the
    portal looked and saw no host key) or `busy`."""

    phase: str
    text: str
    lines: tuple[str, ...] = ()


def enrolment(node: Node, *, expected: str = "") -> Enrolment:
    """Judges a node that is being added; `expected` is the fingerprint that its owner gave."""
    detail = node["state_detail"] or node["state"]
    offered = node["offered_fingerprint"]
    if node["state"] != "enrolling":
        gone = node["state"] == "retired"
        return Enrolment("blocked" if gone else "ready", f"The node is {node['state']}.")
    if expected and offered and offered != expected and not node["host_key_fingerprint"]:
        return Enrolment("blocked", "The node shows another host key than the one you gave.", (
            f"shown:  {offered}", f"given:  {expected}",
            "Either it was copied wrongly, or something else answers at this address.",
        ))  # fmt: skip
    failed = [check for check in node["preflight"] if not check["ok"]]
    if failed:
        return Enrolment("blocked", "The node is not fit yet.", tuple(_check_lines(failed)))
    if offered and not node["host_key_fingerprint"] and not expected:
        return Enrolment("confirm", detail)
    looked = detail not in (node["state"], NOT_LOOKED)
    return Enrolment("unreached" if looked and not (offered or node["host_key_fingerprint"]) else "busy", detail)


def _check_lines(failed: list[dict[str, Any]]) -> list[str]:
    lines = []
    for check in failed:
        lines.append(f"✗ {check['title']}" + (f": {check['detail']}" if check.get("detail") else ""))
        if check.get("fix"):
            lines.append(f"    {check['fix']}")
    return lines


def healthy(node: Node) -> int:
    """Returns how many of its GPUs can be given out."""
    return sum(gpu["health"] == "ok" for gpu in node["gpus"])


def free(node: Node) -> int:
    """Returns how many of its GPUs are idle and can be given out."""
    return sum(gpu["health"] == "ok" and gpu["share_free"] == 1000 for gpu in node["gpus"])


def models(node: Node) -> str:
    """Returns its GPUs by model, such as `8 × NVIDIA H100`."""
    counts: dict[str, int] = {}
    for gpu in node["gpus"]:
        counts[gpu["model"]] = counts.get(gpu["model"], 0) + 1
    return ", ".join(f"{count} × {model}" for model, count in counts.items())


def address(node: Node) -> str:
    """Returns where SSH reaches it."""
    port = "" if node["port"] == 22 else f":{node['port']}"
    host = f"[{node['address']}]" if ":" in node["address"] and port else node["address"]
    return f"{node['ssh_user']}@{host}{port}"


COLUMNS: list[Column] = [
    ("NAME", lambda node: str(node["name"])),
    ("STATE", lambda node: str(node["state"])),
    ("GPUS FREE", lambda node: f"{free(node)} of {len(node['gpus'])}"),
    ("MODEL", models),
    ("ADDRESS", address),
    ("LAST SEEN", lambda node: ago_text(node["last_alive_at"]) or "never"),
    ("DETAIL", lambda node: str(node["state_detail"])),
]


GPU_COLUMNS: list[Column] = [
    ("NODE", lambda gpu: str(gpu["node"])),
    ("GPU", lambda gpu: "?" if gpu["index"] is None else str(gpu["index"])),
    ("MODEL", lambda gpu: str(gpu["model"])),
    ("MEMORY", lambda gpu: mib_text(gpu["memory_mib"])),
    ("HEALTH", lambda gpu: str(gpu["health"])),
    ("USE", lambda gpu: ", ".join(gpu["jobs"]) or ("free" if gpu["share_free"] == 1000 else "in use")),
    ("PCI", lambda gpu: str(gpu["pci_address"])),
    ("UUID", lambda gpu: str(gpu["uuid"])),
    ("DETAIL", lambda gpu: "" if gpu["health"] == "ok" else str(gpu["health_detail"])),
]


def gpu_rows(nodes: Iterable[Node]) -> list[dict[str, Any]]:
    """Returns the GPUs of some nodes, each with its node's name and the jobs on it."""
    return [
        {**gpu, "node": node["name"], "jobs": [j["name"] for j in node["jobs"] if j["gpu_uuid"] == gpu["uuid"]]}
        for node in nodes
        for gpu in node["gpus"]
    ]


def facts(node: Node) -> list[tuple[str, str]]:
    """Returns what `node show` tells a person."""
    skew = node["clock_skew_ms"]
    rows = [
        ("Node", node["name"]),
        ("Id", node["id"]),
        ("State", node["state"]),
        ("Detail", node["state_detail"]),
        ("Since", time_text(node["state_changed_at"])),
        ("Address", address(node)),
        ("Host key", node["host_key_fingerprint"] or _offered(node)),
        ("Agent", node["agent_version"]),
        ("Last seen", ago_text(node["last_alive_at"]) or "never"),
        ("Clock", f"{skew:+d} ms against the portal" if skew is not None else ""),
        ("CPU", f"{(node['cpu_milli'] - node['cpu_milli_used']) / 1000:g} of {node['cpu_milli'] / 1000:g} cores free"),
        ("Memory", f"{mib_text(node['memory_mib'] - node['memory_mib_used'])} of {mib_text(node['memory_mib'])} free"),
    ]
    rows += [(f"GPU {_number(gpu, place)}", _gpu(gpu, node)) for place, gpu in enumerate(node["gpus"])]
    failed = [check for check in node["preflight"] if not check["ok"]]
    return [*rows, ("To mend", "\n".join(_check_lines(failed)))]


def _offered(node: Node) -> str:
    offered = node["offered_fingerprint"]
    return f"{offered}, not confirmed yet: berth node trust {node['name']}" if offered else ""


def _number(gpu: dict[str, Any], place: int) -> str:
    return str(place if gpu["index"] is None else gpu["index"])


def _gpu(gpu: dict[str, Any], node: Node) -> str:
    jobs = [job["name"] for job in node.get("jobs") or [] if job["gpu_uuid"] == gpu["uuid"]]
    idle = "free" if gpu["share_free"] == 1000 else "in use"
    state = idle if gpu["health"] == "ok" else f"{gpu['health']} {gpu['health_detail']}".strip()
    used = f"job {', '.join(jobs)}" if jobs else state
    return f"{gpu['model']}, {mib_text(gpu['memory_mib'])}, {gpu['pci_address']}, {gpu['uuid']}: {used}"
