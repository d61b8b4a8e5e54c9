"""Identities of simulated GPUs, the mock NVML's state file and the CDI file of a node."""

import random
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from portal.sandbox.errors import SandboxError
from portal.sandbox.native import LIBRARY
from portal.sandbox.state import Gpu, NodeSpec, write_atomic

MAX_GPUS = 16
NVIDIA_MAJOR = 195
XID_FELL_OFF_THE_BUS = 79
HOOK = "/usr/lib/berth-sandbox/gpuhook"
NODE_STATE_DIR = "/run/mock-nvml"


def new_gpus(count: int) -> tuple[Gpu, ...]:
    """Return `count` GPUs with identities of their own, in the order of their PCI buses."""
    if not 0 <= count <= MAX_GPUS:
        raise SandboxError(f"{count} GPUs: a sandbox node has 0 to {MAX_GPUS}")
    buses = sorted(random.SystemRandom().sample(range(0x10, 0xF0), count))
    serials = random.SystemRandom().sample(range(10**8), count)
    return tuple(
        Gpu(minor, f"GPU-{uuid.uuid4()}", f"16500{serial:08d}", bus)
        for minor, (bus, serial) in enumerate(zip(buses, serials, strict=True))
    )


def first_state(spec: NodeSpec) -> dict[str, str]:
    """Return the mock NVML's keys of a new node."""
    keys = {
        "count": str(len(spec.gpus)),
        "default.name": spec.model,
        "default.mem_total": str(spec.memory_mib << 20),
    }
    for gpu in spec.gpus:
        keys |= {
            f"gpu{gpu.minor}.uuid": gpu.uuid,
            f"gpu{gpu.minor}.serial": gpu.serial,
            f"gpu{gpu.minor}.pci_bus": str(gpu.pci_bus),
        }
    return keys


def read_state(path: Path) -> dict[str, str]:
    """Return the keys of a state file; the last line of a key wins, as in the library."""
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split("=", 1) for line in lines if "=" in line)


def write_state(path: Path, keys: Mapping[str, str]) -> None:
    """Replace the state file."""
    write_atomic(path, "".join(f"{key}={value}\n" for key, value in keys.items()))


def changed(keys: Mapping[str, str], values: Mapping[str, object], *, prefix: str = "") -> dict[str, str]:
    """Return the keys with values set under a prefix (`gpu3.`, or none for the driver); None removes a value."""
    result = dict(keys)
    for name, value in values.items():
        if "\n" in f"{name}{value}" or "=" in name:
            raise SandboxError(f"NVML value {name!r}: no line breaks, no '=' in the name")
        result.pop(f"{prefix}{name}", None)
        if value is not None:
            result[f"{prefix}{name}"] = str(int(value) if isinstance(value, bool) else value)
    return result


def is_lost(keys: Mapping[str, str], minor: int) -> bool:
    """Return whether a GPU has fallen off the bus."""
    return keys.get(f"gpu{minor}.lost", "0") != "0"


def cdi_text(gpus: Iterable[Gpu], library_dir: str) -> str:
    """Return /etc/cdi/nvidia.yaml: each GPU by index, by UUID, and all of them."""
    present = list(gpus)
    devices = [
        {"name": name, "containerEdits": _edits([gpu])} for gpu in present for name in (str(gpu.minor), gpu.uuid)
    ]
    if present:
        devices.append({"name": "all", "containerEdits": _edits(present)})
    document = {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": devices,
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void"],
            "deviceNodes": [{"path": "/dev/nvidiactl"}, {"path": "/dev/nvidia-uvm"}],
            "mounts": [
                _mount(f"{library_dir}/{LIBRARY}"),
                _mount("/usr/bin/nvidia-smi"),
                _mount(NODE_STATE_DIR),
            ],
        },
    }
    return yaml.safe_dump(document, sort_keys=False)


def _edits(gpus: list[Gpu]) -> dict[str, Any]:
    return {
        "deviceNodes": [
            {"path": f"/dev/nvidia{gpu.minor}", "type": "c", "major": NVIDIA_MAJOR, "minor": gpu.minor} for gpu in gpus
        ],
        "hooks": [
            {"hookName": stage, "path": HOOK, "args": ["gpuhook", verb, str(gpu.minor)]}
            for gpu in gpus
            for stage, verb in (("poststart", "start"), ("poststop", "stop"))
        ],
    }


def _mount(path: str) -> dict[str, Any]:
    return {"hostPath": path, "containerPath": path, "options": ["ro", "nosuid", "nodev", "bind"]}
