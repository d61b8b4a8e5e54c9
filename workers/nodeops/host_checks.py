"""The checks of what lies beneath the container runtime, each with its fix."""

from __future__ import annotations

from workers.nodeops.host import HostFacts
from workers.nodeops.types import Check

MIN_INODES = 100_000
# Limits of a job need these; v2 has io for v1's blkio, and no job is limited by it yet.
CONTROLLERS = frozenset({"cpu", "memory", "pids"})
_POSIX_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh"})


def host_checks(host: HostFacts) -> list[Check]:
    """In the order in which they are best mended; all but the fabric warn only."""
    return [_shell(host), _controllers(host), _mismatch(host), _fabric(host), _inodes(host), _network(host)]


def _shell(host: HostFacts) -> Check:
    ok = host.login_shell is None or host.login_shell.rpartition("/")[2] in _POSIX_SHELLS
    fix = "nothing has to change: Berth runs all through /bin/sh. To be sure: usermod -s /bin/bash USER"
    return Check("login_shell", ok, "Login shell", host.login_shell or "unknown", fix, required=False)


def _controllers(host: HostFacts) -> Check:
    missing = sorted(CONTROLLERS - host.controllers) if host.controllers else []
    detail = f"without {', '.join(missing)}" if missing else "cpu, memory, pids" if host.controllers else "unknown"
    fix = "start the kernel with cgroup_enable=memory and without cgroup_disable, or use cgroups v2"
    return Check("cgroup_controllers", not missing, "Control group limits", detail, fix, required=False)


def _mismatch(host: HostFacts) -> Check:
    detail = f"kernel module {host.driver_version or 'unknown'}, library {host.library_version or 'unknown'}"
    fix = "reboot: the driver's packages were upgraded under the running kernel module; then hold them (apt-mark hold)"
    return Check("driver_mismatch", not host.mismatch, "NVIDIA driver and library agree", detail, fix, required=False)


def _fabric(host: HostFacts) -> Check:
    detail = ", ".join(sorted(set(host.fabric_states))) or "none reported"
    fix = "install the fabric manager of exactly the driver's version, then systemctl enable --now nvidia-fabricmanager"
    return Check("fabric", not host.fabric_waits, "GPU fabric", detail, fix)


def _inodes(host: HostFacts) -> Check:
    ok = host.inodes_free is None or host.inodes_free >= MIN_INODES
    detail = "unknown" if host.inodes_free is None else f"{host.inodes_free} free below /var/lib"
    return Check(
        "inodes", ok, "Inodes", detail, f"remove small files until {MIN_INODES} inodes are free", required=False
    )


def _network(host: HostFacts) -> Check:
    names = {"netns": "network namespaces", "nft": "nft", "vxlan": "vxlan"}
    missing = [] if host.network is None else [names[name] for name in names if name not in host.network]
    detail = f"without {', '.join(missing)}" if missing else "unknown" if host.network is None else "all there"
    fix = "apt install nftables (dnf install nftables), modprobe vxlan; needed for private networks only"
    return Check("network", not missing, "Kernel features for networks", detail, fix, required=False)
