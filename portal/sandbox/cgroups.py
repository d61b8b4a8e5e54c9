"""The cgroups of one node: limits, freezing, finding and ending its processes.

Cgroup v1 (also hybrid) is what this is tested on; the v2 branch follows the kernel's documentation and is unproven.
There the node's own processes move to a group of their own below the node's, because v2 lets podman set limits for
containers only beside groups, never beside processes.
"""

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from portal.sandbox.errors import SandboxError
from portal.sandbox.shell import wait_until

PIDS_MAX = 4000
_GENERIC_OPTIONS = {"rw", "ro", "nosuid", "nodev", "noexec", "relatime", "noatime", "seclabel"}


@dataclass(frozen=True)
class Hierarchy:
    """One mounted cgroup tree; `options` mounts it again inside a node."""

    mount: Path
    options: str
    v2: bool = False

    @property
    def controllers(self) -> set[str]:
        """The controllers of a v1 tree."""
        return set(self.options.split(","))


def hierarchies(mounts: str) -> tuple[Hierarchy, ...]:
    """Return the cgroup trees found in the text of /proc/mounts: all of v1, else the one of v2."""
    first, second = [], []
    for line in mounts.splitlines():
        _, mount, kind, options, *_ = line.split()
        if kind == "cgroup":
            own = [word for word in options.split(",") if word not in _GENERIC_OPTIONS]
            if any(word.startswith("name=") for word in own):
                own.insert(0, "none")
            first.append(Hierarchy(Path(mount), ",".join(w for w in own if not w.startswith("release_agent="))))
        elif kind == "cgroup2":
            second.append(Hierarchy(Path(mount), "", v2=True))
    if not first and not second:
        raise SandboxError("no cgroup hierarchy is mounted on this machine")
    return tuple(first) or tuple(second[:1])


class NodeCgroup:
    """One node's group in every hierarchy of the machine."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.trees = hierarchies(Path("/proc/mounts").read_text())
        self.paths = tuple(tree.mount / name for tree in self.trees)

    @property
    def main(self) -> Path:
        """The group that is asked for processes and freezing."""
        for tree, path in zip(self.trees, self.paths, strict=True):
            if tree.v2 or "freezer" in tree.controllers:
                return path
        raise SandboxError("this machine has no freezer cgroup hierarchy")

    @property
    def procs_files(self) -> list[str]:
        """The files a process writes its pid to, to join the node."""
        folders = [self._leaf] if self._v2 and self._leaf.exists() else self.paths
        return [str(folder / "cgroup.procs") for folder in folders]

    @property
    def boot_entries(self) -> str:
        """How boot.sh mounts the trees again: `name|options` words."""
        return " ".join("v2" if tree.v2 else f"{tree.mount.name}|{tree.options}" for tree in self.trees)

    def create(self, *, cpus: int | None, memory_mib: int) -> None:
        """Make the groups and set the node's limits (memory in MiB)."""
        for tree, path in zip(self.trees, self.paths, strict=True):
            try:
                path.mkdir(exist_ok=True)
                for file, value in _limits(tree, cpus=cpus, memory_bytes=memory_mib << 20).items():
                    (path / file).write_text(value)
            except OSError as error:
                raise SandboxError(
                    f"this machine does not let us make cgroups ({error}); use a whole machine"
                ) from error

    def settle(self) -> None:
        """On v2, move the node's first processes aside and allow limits for its containers; nothing on v1."""
        if not self._v2:
            return
        self._leaf.mkdir(exist_ok=True)
        if not wait_until(self._moved_aside, timeout_s=5):
            raise SandboxError(f"{self.name}: processes {_pids(self.main)} do not leave their cgroup")
        controllers = (self.main / "cgroup.controllers").read_text().split()
        (self.main / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))

    def processes(self) -> list[int]:
        """Return the pids of every process in the node, its containers included."""
        return [pid for folder in _tree(self.main) for pid in _pids(folder)]

    def init_pid(self) -> int | None:
        """Return the machine's pid of the node's process 1, or None when the node is off."""
        for pid in _pids(self._leaf if self._v2 and self._leaf.exists() else self.main):
            names = _namespace_pids(pid)
            if len(names) >= 2 and names[-1] == 1 and not _is_dead(pid):
                return pid
        return None

    def frozen(self) -> bool:
        """Return whether the node's processes are stopped."""
        file = self.main / ("cgroup.events" if self._v2 else "freezer.state")
        if not file.exists():
            return False
        text = file.read_text()
        return "frozen 1" in text if self._v2 else "THAWED" not in text

    def freeze(self) -> None:
        """Stop every process of the node where it stands."""
        self._set_frozen(True)
        settled = self.frozen if self._v2 else lambda: "FROZEN" in (self.main / "freezer.state").read_text()
        if not wait_until(settled, timeout_s=5):
            self._set_frozen(False)
            raise SandboxError(f"{self.name}: the kernel did not freeze the node within 5 s")

    def thaw(self) -> None:
        """Let the node's processes go on."""
        if self.main.exists():
            self._set_frozen(False)

    def kill(self) -> None:
        """End every process at once, process 1 first; frozen ones die as they thaw."""
        init = self.init_pid()
        for pid in ([init] if init else []) + self.processes():
            _kill(pid)
        self.thaw()
        if not wait_until(self._emptied, timeout_s=15, pause_s=0.02):
            raise SandboxError(f"{self.name}: processes {self.processes()} do not end")

    def remove(self) -> None:
        """Remove the groups; nothing happens when they are gone already."""
        if not wait_until(self._removed, timeout_s=10, pause_s=0.02):
            left = [str(path) for path in self.paths if path.exists()]
            raise SandboxError(f"cgroups do not go away: {', '.join(left)}")

    @property
    def _leaf(self) -> Path:
        return self.main / "node"

    @property
    def _v2(self) -> bool:
        return self.trees[0].v2

    def _set_frozen(self, frozen: bool) -> None:
        file, words = ("cgroup.freeze", "01") if self._v2 else ("freezer.state", ("THAWED", "FROZEN"))
        (self.main / file).write_text(words[frozen])

    def _moved_aside(self) -> bool:
        for pid in _pids(self.main):
            with contextlib.suppress(ProcessLookupError):
                (self._leaf / "cgroup.procs").write_text(str(pid))
        return not _pids(self.main)

    def _emptied(self) -> bool:
        left = [pid for pid in self.processes() if not _is_dead(pid)]
        for pid in left:
            _kill(pid)
        return not left

    def _removed(self) -> bool:
        for path in self.paths:
            for folder in reversed(_tree(path)):
                try:
                    folder.rmdir()
                except OSError:
                    return False
        return True


def _limits(tree: Hierarchy, *, cpus: int | None, memory_bytes: int) -> dict[str, str]:
    """Return file → value for one tree; the order matters for cpuset."""
    period = 100_000
    if tree.v2:
        quota = f"{cpus * period} {period}" if cpus else f"max {period}"
        return {"memory.max": str(memory_bytes), "pids.max": str(PIDS_MAX), "cpu.max": quota}
    values: dict[str, str] = {}
    if "cpuset" in tree.controllers:
        for file in ("cpuset.cpus", "cpuset.mems"):
            values[file] = (tree.mount / file).read_text()
        values["cgroup.clone_children"] = "1"
    if "memory" in tree.controllers:
        values["memory.limit_in_bytes"] = str(memory_bytes)
    if "pids" in tree.controllers:
        values["pids.max"] = str(PIDS_MAX)
    if "cpu" in tree.controllers and cpus:
        values["cpu.cfs_quota_us"] = str(cpus * period)
    return values


def _tree(path: Path) -> list[Path]:
    """Return a group and all groups below it, parents first."""
    return [Path(folder) for folder, _, _ in os.walk(path)] if path.exists() else []


def _pids(folder: Path) -> list[int]:
    try:
        return [int(word) for word in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _status(pid: int, key: str) -> list[str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return []
    return next((line.split()[1:] for line in lines if line.startswith(f"{key}:")), [])


def _namespace_pids(pid: int) -> list[int]:
    return [int(word) for word in _status(pid, "NSpid")]


def _is_dead(pid: int) -> bool:
    return (_status(pid, "State") or ["X"])[0] in "XZ"


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
