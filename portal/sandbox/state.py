"""What a cluster keeps on disk: node descriptions as JSON, written by rename, and locks between processes."""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from portal.sandbox.errors import DamagedStateError, SandboxError


@dataclass(frozen=True)
class Gpu:
    """The fixed identity of one simulated GPU."""

    minor: int
    uuid: str
    serial: str
    pci_bus: int


@dataclass(frozen=True)
class NodeSpec:
    """What a node was ordered as; written before anything else of it exists."""

    name: str
    host: int
    gpus: tuple[Gpu, ...]
    model: str
    memory_mib: int
    cpus: int | None
    host_memory_mib: int


def write_atomic(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Replace a file in one step, so that a reader sees the old or the new text."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
    scratch.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; raise SandboxError when it is broken."""
    try:
        value = json.loads(path.read_text())
    except ValueError as error:
        raise DamagedStateError(f"{path} is damaged; remove the node or the cluster and add it again") from error
    if not isinstance(value, dict):
        raise DamagedStateError(f"{path} is damaged: an object was expected")
    return value


def save_spec(path: Path, spec: NodeSpec) -> None:
    """Write a node's description."""
    write_atomic(path, json.dumps(asdict(spec), indent=1) + "\n")


def load_spec(path: Path) -> NodeSpec:
    """Read a node's description; raise SandboxError when it is broken."""
    value = read_json(path)
    try:
        gpus = tuple(Gpu(**gpu) for gpu in value.pop("gpus"))
        return NodeSpec(gpus=gpus, **value)
    except (KeyError, TypeError) as error:
        raise DamagedStateError(f"{path} is damaged; remove the node and add it again") from error


@contextmanager
def locked(path: Path, *, timeout_s: float = 60) -> Iterator[None]:
    """Hold an exclusive lock between processes and threads; raise SandboxError when it stays taken."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + timeout_s
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise SandboxError(f"{path} stayed locked by another sandbox command for {timeout_s:g} s") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)
