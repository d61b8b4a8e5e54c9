"""Which cgroup trees a machine has and what limits are written to them."""

from pathlib import Path

import pytest

from portal.sandbox import SandboxError
from portal.sandbox.cgroups import Hierarchy, NodeCgroup, _limits, hierarchies

V1 = """\
tmpfs /sys/fs/cgroup tmpfs rw,relatime,mode=755 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/freezer cgroup rw,relatime,freezer 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,xattr,release_agent=/lib/agent,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
"""
V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate 0 0\n"


def test_hybrid_machines_use_their_v1_trees() -> None:
    assert [(tree.mount.name, tree.options, tree.v2) for tree in hierarchies(V1)] == [
        ("cpu,cpuacct", "cpu,cpuacct", False),
        ("freezer", "freezer", False),
        ("systemd", "none,xattr,name=systemd", False),
    ]


def test_v2_machines_use_their_one_tree() -> None:
    assert hierarchies(V2) == (Hierarchy(Path("/sys/fs/cgroup"), "", v2=True),)


def test_no_tree_is_said() -> None:
    with pytest.raises(SandboxError, match="no cgroup hierarchy"):
        hierarchies("proc /proc proc rw 0 0\n")


@pytest.mark.parametrize(
    ("tree", "cpus", "expected"),
    [
        (Hierarchy(Path("/c"), "memory"), None, {"memory.limit_in_bytes": "1024"}),
        (Hierarchy(Path("/c"), "pids"), None, {"pids.max": "4000"}),
        (Hierarchy(Path("/c"), "cpu,cpuacct"), 2, {"cpu.cfs_quota_us": "200000"}),
        (Hierarchy(Path("/c"), "cpu"), None, {}),
        (Hierarchy(Path("/c"), "freezer"), 2, {}),
        (
            Hierarchy(Path("/c"), "", v2=True),
            2,
            {"memory.max": "1024", "pids.max": "4000", "cpu.max": "200000 100000"},
        ),
        (
            Hierarchy(Path("/c"), "", v2=True),
            None,
            {"memory.max": "1024", "pids.max": "4000", "cpu.max": "max 100000"},
        ),
    ],
)
def test_limits(tree: Hierarchy, cpus: int | None, expected: dict[str, str]) -> None:
    assert _limits(tree, cpus=cpus, memory_bytes=1024) == expected


def test_a_cpuset_copies_the_machine(tmp_path: Path) -> None:
    (tmp_path / "cpuset.cpus").write_text("0-1\n")
    (tmp_path / "cpuset.mems").write_text("0\n")
    values = _limits(Hierarchy(tmp_path, "cpuset"), cpus=None, memory_bytes=1)
    assert list(values.items()) == [
        ("cpuset.cpus", "0-1\n"),
        ("cpuset.mems", "0\n"),
        ("cgroup.clone_children", "1"),
    ]


def test_on_v2_a_nodes_own_processes_move_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.sandbox.cgroups.hierarchies", lambda mounts: (Hierarchy(tmp_path, "", v2=True),))
    group = NodeCgroup("berth-sb-gpu-1")
    group.create(cpus=None, memory_mib=64)
    assert group.procs_files == [str(tmp_path / "berth-sb-gpu-1/cgroup.procs")]
    pids = iter([[4194399], []])
    monkeypatch.setattr("portal.sandbox.cgroups._pids", lambda folder: next(pids))
    (group.main / "cgroup.controllers").write_text("cpu memory pids\n")
    group.settle()
    assert (group.main / "node/cgroup.procs").read_text() == "4194399"
    assert (group.main / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert group.procs_files == [str(tmp_path / "berth-sb-gpu-1/node/cgroup.procs")]
    assert (group.main / "memory.max").read_text() == str(64 << 20)
