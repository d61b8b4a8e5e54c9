"""What other apps and the workers may know of nodes."""

import base64
import dataclasses
import datetime as dt
import hashlib
import uuid
from typing import Any

from apps.fleet.choices import GpuHealth


def fingerprint(host_key_base64: str) -> str:
    """Returns OpenSSH's `SHA256:…` fingerprint of a public key's base64 text."""
    digest = hashlib.sha256(base64.b64decode(host_key_base64)).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


@dataclasses.dataclass(frozen=True)
class GpuView:
    """One GPU for display and placement; `share_free` counts 1000 for a whole idle GPU."""

    id: uuid.UUID
    uuid: str
    pci_address: str
    index: int | None
    model: str
    memory_mib: int
    health: str
    health_detail: str
    share_free: int

    @property
    def health_label(self) -> str:
        """The health as a word in the active language."""
        return str(GpuHealth(self.health).label)


@dataclasses.dataclass(frozen=True)
class NodeView:
    """A node for display and placement."""

    id: uuid.UUID
    name: str
    address: str
    port: int
    ssh_user: str
    state: str
    state_detail: str
    state_changed_at: dt.datetime
    seq: int
    host_key_fingerprint: str
    offered_fingerprint: str
    boot_id: str
    agent_version: str
    clock_skew_ms: int | None
    last_alive_at: dt.datetime | None
    cpu_milli: int
    cpu_milli_used: int
    memory_mib: int
    memory_mib_used: int
    gpus: tuple[GpuView, ...]
    inventory: dict[str, Any]
    preflight: tuple[dict[str, Any], ...]


@dataclasses.dataclass(frozen=True)
class LinkGrant:
    """A node whose connection this worker owns, with all it needs to open it."""

    node_id: uuid.UUID
    name: str
    address: str
    port: int
    ssh_user: str
    host_key_type: str
    host_key: str
    token: int
    password: str | None


@dataclasses.dataclass(frozen=True)
class OperationClaim:
    """An operation that the caller may carry out while its token is current."""

    id: uuid.UUID
    node_id: uuid.UUID
    kind: str
    object_id: uuid.UUID
    args: dict[str, Any]
    token: int
    deadline_at: dt.datetime
