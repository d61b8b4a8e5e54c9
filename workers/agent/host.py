"""Facts of the node besides its GPUs."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from typing import Any, Dict, List

from workers.agent import clock
from workers.agent.files import read_text
from workers.agent.podman import Podman
from workers.agent.process import runtime_environment

_VERSION_TIMEOUT_S = 20


def host_facts(home: str, version: str) -> Dict[str, Any]:
    """What the inventory says of the host; unknown values are null."""
    disk = os.statvfs(home)
    return {
        "hostname": platform.node(),
        "os": _os_name(),
        "kernel": platform.release(),
        "arch": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mib": _memory_mib(),
        "disk_total_mib": disk.f_blocks * disk.f_frsize >> 20,
        "disk_free_mib": disk.f_bavail * disk.f_frsize >> 20,
        "boot_id": clock.boot_id(),
        "agent_version": version,
        "python": platform.python_version(),
        "cdi_devices": cdi_devices(),
        **_runtime_versions(),
    }


def cdi_devices() -> List[str]:
    """Devices named in the node's CDI files, read leniently: the runtime has the last word."""
    found = set()
    for folder in ("/etc/cdi", "/var/run/cdi"):
        names = os.listdir(folder) if os.path.isdir(folder) else []
        for name in names:
            found.update(_names(read_text(os.path.join(folder, name))))
    return sorted(found)


def _names(text: str) -> List[str]:
    """The `name:` values of a CDI file; YAML without a YAML parser, JSON with one."""
    try:
        devices = json.loads(text).get("devices", [])
        return [str(device["name"]) for device in devices]
    except (ValueError, AttributeError, KeyError, TypeError):
        lines = (line.strip().lstrip("- ").strip() for line in text.splitlines())
        return [line[5:].strip().strip("\"'") for line in lines if line.startswith("name:")]


def _os_name() -> str:
    for line in read_text("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line[12:].strip().strip('"')
    return platform.system()


def _memory_mib() -> Any:
    for line in read_text("/proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) >> 10
    return None


def _runtime_versions() -> Dict[str, Any]:
    """Podman's own account of itself; nulls when it does not answer."""
    versions: Dict[str, Any] = {"podman": None, "runtime": None, "conmon": None}
    try:
        answer = subprocess.run(
            Podman().version().argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=runtime_environment(),
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
        info = json.loads(answer.stdout.decode(errors="replace"))
        host = info["host"]
        versions["podman"] = info["version"]["Version"]
        versions["runtime"] = host["ociRuntime"]["version"].splitlines()[0]
        versions["conmon"] = host["conmon"]["version"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, subprocess.TimeoutExpired):
        pass
    return versions
