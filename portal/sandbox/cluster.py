"""A set of simulated GPU nodes on one machine, found again from its state folder."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path

from portal.sandbox import ipam, network
from portal.sandbox.disk import check_file_system, check_place
from portal.sandbox.errors import SandboxError
from portal.sandbox.gpus import new_gpus
from portal.sandbox.images import RUN_FOLDER, ImageStore
from portal.sandbox.native import build
from portal.sandbox.node import SandboxNode
from portal.sandbox.shell import require_root, require_tools, run
from portal.sandbox.state import NodeSpec, load_spec, locked, read_json, save_spec, write_atomic

DEFAULT_NAME = "sb"
DEFAULT_SUBNET = "10.77.0.0/24"
_OWN_ENTRIES = ("nodes", "images", RUN_FOLDER, "build", "locks", "login_key", "login_key.pub", "cluster.json")


class SandboxCluster:
    """Adds, finds and removes nodes; several clusters may run at once with different names and subnets."""

    def __init__(self, state_dir: Path, *, name: str = DEFAULT_NAME, subnet: str = DEFAULT_SUBNET) -> None:
        require_root()
        self.state_dir = Path(state_dir).absolute()
        self.name = ipam.check_cluster_name(name)
        self.subnet = ipam.parse_subnet(subnet)
        check_place(self.state_dir)
        self._images = ImageStore(self.state_dir / "images")
        saved = saved_cluster(self.state_dir)
        if saved and saved != (self.name, str(self.subnet)):
            raise SandboxError(f"{self.state_dir} holds cluster {saved[0]!r} on {saved[1]}; name those or destroy it")

    def add(
        self,
        name: str,
        *,
        gpus: int = 8,
        model: str = "NVIDIA H100 80GB HBM3",
        memory_mib: int = 81559,
        cpus: int | None = None,
        host_memory_mib: int = 2048,
    ) -> SandboxNode:
        """Add a node and boot it; an existing one is booted when it is off and was ordered the same."""
        ipam.check_node_name(name)
        if memory_mib < 1 or host_memory_mib < 64 or (cpus is not None and cpus < 1):
            raise SandboxError("a node needs memory of at least 64 MiB, GPU memory and, if given, at least one CPU")
        require_tools()
        with self._lock():
            self._prepare()
            self._order(name, gpus, model, memory_mib, cpus, host_memory_mib)
        node = self._at(name)
        node.boot()
        return node

    def nodes(self) -> list[SandboxNode]:
        """Return all nodes in the order of their addresses."""
        found = [self._at(path.parent.name) for path in self._folder.glob("*/node.json")]
        return sorted(found, key=lambda node: node.spec.host)

    def node(self, name: str) -> SandboxNode:
        """Return a node; raise SandboxError when there is none of this name."""
        node = self._at(ipam.check_node_name(name))
        if not (self._folder / name / "node.json").exists():
            known = ", ".join(each.name for each in self.nodes()) or "none"
            raise SandboxError(f"there is no sandbox node {name!r}; there are: {known}")
        return node

    def remove(self, name: str) -> None:
        """Remove a node with everything it left, also a half-made one; nothing happens when there is none."""
        self._at(ipam.check_node_name(name)).remove()

    def load_image(self, archive: Path, name: str | None = None) -> str:
        """Make an image present on all nodes, present and future; return its name."""
        with self._lock():
            self._prepare()
            return self._images.load(Path(archive), name)

    def build_mini_image(self) -> str:
        """Make a tiny busybox image present on all nodes; return its name."""
        with self._lock():
            self._prepare()
            return self._images.build_mini()

    def destroy(self) -> None:
        """Remove all nodes, the bridge and every file of the cluster."""
        with self._lock():
            for folder in sorted(self._folder.glob("*")):
                self._at(folder.name).remove()
            if network.belongs_to(ipam.bridge_name(self.name), str(self.state_dir)):
                network.remove(ipam.bridge_name(self.name))
            for entry in _OWN_ENTRIES:
                run(["rm", "-rf", "--one-file-system", str(self.state_dir / entry)], timeout_s=120)
        if self.state_dir.is_dir() and not any(self.state_dir.iterdir()):
            self.state_dir.rmdir()

    @property
    def _folder(self) -> Path:
        return self.state_dir / "nodes"

    def _at(self, name: str) -> SandboxNode:
        return SandboxNode(self.state_dir, self.name, self.subnet, name)

    def _lock(self) -> AbstractContextManager[None]:
        return locked(self.state_dir / "locks" / ".cluster", timeout_s=300)

    def _prepare(self) -> None:
        """Make what all nodes share: description, login key, image store, compiled parts, bridge."""
        self._folder.mkdir(parents=True, exist_ok=True)
        check_file_system(self._folder)
        network.ensure_bridge(self.name, self.subnet, owner=str(self.state_dir))
        if saved_cluster(self.state_dir) is None:
            text = json.dumps({"name": self.name, "subnet": str(self.subnet)})
            write_atomic(self.state_dir / "cluster.json", text + "\n")
        key = self.state_dir / "login_key"
        if not key.exists():
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"sandbox-{self.name}", "-f", str(key)])
        self._images.ensure()
        build(self.state_dir / "build")

    def _order(
        self, name: str, gpus: int, model: str, memory_mib: int, cpus: int | None, host_memory_mib: int
    ) -> NodeSpec:
        path = self._folder / name / "node.json"
        if path.exists():
            spec = load_spec(path)
            ordered = (gpus, model, memory_mib, cpus, host_memory_mib)
            if ordered != (len(spec.gpus), spec.model, spec.memory_mib, spec.cpus, spec.host_memory_mib):
                raise SandboxError(f"node {name} exists with other properties; remove it first")
            return spec
        host = ipam.next_host(node.spec.host for node in self.nodes())
        spec = NodeSpec(name, host, new_gpus(gpus), model, memory_mib, cpus, host_memory_mib)
        path.parent.mkdir(parents=True, exist_ok=True)
        save_spec(path, spec)
        return spec


def saved_cluster(state_dir: Path) -> tuple[str, str] | None:
    """Return name and subnet of the cluster in a state folder, or None."""
    path = Path(state_dir) / "cluster.json"
    if not path.exists():
        return None
    value = read_json(path)
    return str(value.get("name")), str(value.get("subnet"))
