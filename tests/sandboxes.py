"""Sandbox nodes for tests: one cluster per test process, removed at its end, and swept up if a run was killed."""

from __future__ import annotations

import hashlib
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from portal.sandbox import SandboxCluster, SandboxNode
from portal.sandbox.cluster import saved_cluster

_HOME = Path(tempfile.gettempdir()) / "berth-test-sandboxes"
NodeFactory = Callable[..., SandboxNode]


def unique_cluster(folder: Path, salt: str) -> SandboxCluster:
    """Return a cluster whose name and network follow from the process and `salt`."""
    digest = int.from_bytes(hashlib.sha256(f"{os.getpid()}/{salt}".encode()).digest()[:6], "big")
    subnet = f"10.{80 + digest % 20}.{digest // 20 % 256}.0/24"
    return SandboxCluster(folder, name=f"t{digest % 16**7:07x}", subnet=subnet)


def _sweep() -> None:
    """Remove the clusters of test processes that were killed."""
    for folder in _HOME.glob("*"):
        pid = folder.name.partition("-")[0]
        saved = saved_cluster(folder)
        if pid.isdigit() and not Path("/proc", pid).exists() and saved:
            SandboxCluster(folder, name=saved[0], subnet=saved[1]).destroy()


def _require_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: sandbox nodes are made of namespaces, links and cgroups")


@pytest.fixture(scope="session")
def sandbox() -> Iterator[SandboxCluster]:
    """A cluster of this test process, without nodes at first."""
    _require_root()
    _sweep()
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    cluster = unique_cluster(_HOME / f"{os.getpid()}-{worker}", worker)
    try:
        yield cluster
    finally:
        cluster.destroy()
        with suppress(OSError):
            _HOME.rmdir()


@pytest.fixture(scope="session")
def sandbox_image(sandbox: SandboxCluster) -> str:
    """The name of a tiny busybox image that every node has."""
    return sandbox.build_mini_image()


@pytest.fixture(scope="session")
def shared_sandbox_node(sandbox: SandboxCluster) -> SandboxNode:
    """One 8-GPU node for the whole test process; tests take it through `sandbox_node`."""
    return sandbox.add("shared")


@pytest.fixture
def sandbox_node(shared_sandbox_node: SandboxNode) -> SandboxNode:
    """The shared node, switched on, thawed and connected: leave it as you found it."""
    shared_sandbox_node.boot()
    shared_sandbox_node.thaw()
    shared_sandbox_node.heal()
    return shared_sandbox_node


_numbers = itertools.count(1)


@pytest.fixture
def fresh_node(sandbox: SandboxCluster) -> Iterator[NodeFactory]:
    """A factory of nodes for one test only; takes the arguments of `SandboxCluster.add` without the name."""
    made: list[str] = []

    def make(**properties: object) -> SandboxNode:
        made.append(f"fresh-{next(_numbers)}")
        return sandbox.add(made[-1], **properties)  # type: ignore[arg-type]

    yield make
    for name in made:
        sandbox.remove(name)
