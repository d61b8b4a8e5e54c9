"""Is a node fit for Berth? Every fault at once, each with its fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workers.nodeops.facts import Facts, gather, version_tuple
from workers.nodeops.host_checks import host_checks
from workers.nodeops.types import Check

if TYPE_CHECKING:
    from workers.ssh.types import Transport

MIN_DISK_MIB = 10 * 1024
MAX_SKEW_S = 30.0


def preflight(transport: Transport) -> list[Check]:
    """Gather facts and judge them; raises NodeOpError or SshError when the node gives none."""
    return judge(gather(transport))


def judge(facts: Facts) -> list[Check]:
    """The checks, in the order in which they are best mended."""
    return [
        _root(facts),
        _noise(facts),
        _python(facts),
        _podman(facts),
        _runtime(facts),
        _cgroups(facts),
        _driver(facts),
        _cdi(facts),
        _disk(facts),
        _clock(facts),
        *host_checks(facts.host),
    ]


def _root(facts: Facts) -> Check:
    detail = "root" if facts.is_root else f"{facts.user} with sudo" if facts.sudo else facts.sudo_words or "no sudo"
    fix = f"as root: echo '{facts.user or 'USER'} ALL=(root) NOPASSWD: ALL' > /etc/sudoers.d/berth"
    if "must have a tty" in facts.sudo_words:
        fix = f"as root: echo 'Defaults:{facts.user or 'USER'} !requiretty' >> /etc/sudoers.d/berth"
    return Check("root", facts.is_root or facts.sudo, "Root rights", detail, fix)


def _noise(facts: Facts) -> Check:
    detail = f"{facts.noise_bytes} bytes printed by the login shell" if facts.noise_bytes else "silent"
    fix = "print only in interactive shells: put `case $- in *i*) ;; *) return;; esac` first in .bashrc"
    return Check("shell_noise", not facts.noise_bytes, "Quiet login shell", detail, fix, required=False)


def _python(facts: Facts) -> Check:
    fix = "install Python 3.8 or later (apt install python3, dnf install python3.11)"
    return Check("python", facts.python is not None, "Python 3.8 or later", facts.python or "none found", fix)


def _podman(facts: Facts) -> Check:
    ok = facts.podman is not None and version_tuple(facts.podman) >= (4, 3)
    fix = "install podman 4.3 or later: older ones know no CDI or no passthrough log"
    return Check("podman", ok, "Podman 4.3 or later", facts.podman or "none that answers", fix)


def _runtime(facts: Facts) -> Check:
    ok = facts.runtime is not None and facts.conmon
    detail = facts.runtime or "none"
    fix = "install runc or crun, and conmon"
    return Check("runtime", ok, "Container runtime", detail if facts.conmon else f"{detail}, no conmon", fix)


def _cgroups(facts: Facts) -> Check:
    detail = "mounted" if facts.cgroups else "not mounted"
    return Check("cgroups", facts.cgroups, "Control groups", detail, "mount the cgroup file system: limits need it")


def _driver(facts: Facts) -> Check:
    ok = bool(facts.smi_gpus) and facts.smi_error is None
    detail = facts.smi_error or (f"{len(facts.smi_gpus)} GPUs" if facts.smi_gpus else "no GPU answers")
    if facts.smi_gpus and facts.smi_error:
        detail = f"{len(facts.smi_gpus)} GPUs answer, but: {facts.smi_error}"
    fix = "install or repair the NVIDIA driver until nvidia-smi lists every GPU; after an upgrade reboot"
    return Check("nvidia", ok, "NVIDIA driver", detail, fix, required=not facts.smi_gpus)


def _cdi(facts: Facts) -> Check:
    if not facts.smi_gpus:
        return Check("cdi", True, "GPUs for containers", "no GPU that needs a CDI device", "nothing to do")
    missing = [gpu for gpu in facts.smi_gpus if gpu not in facts.cdi_devices]
    ok = not missing
    detail = f"{len(facts.smi_gpus) - len(missing)} of {len(facts.smi_gpus)} GPUs have a CDI device by UUID"
    fix = "nvidia-ctk cdi generate --device-name-strategy=uuid --output=/etc/cdi/nvidia.yaml"
    return Check("cdi", ok, "GPUs for containers", detail, fix)


def _disk(facts: Facts) -> Check:
    free = facts.disk_free_mib
    detail = "unknown" if free is None else f"{free} MiB free below /var/lib"
    fix = f"free at least {MIN_DISK_MIB} MiB below /var/lib"
    return Check("disk", free is not None and free >= MIN_DISK_MIB, "Disk space", detail, fix, required=free is None)


def _clock(facts: Facts) -> Check:
    skew = facts.clock_skew_s
    detail = "unknown" if skew is None else f"{skew:+.1f} s against the portal"
    ok = skew is not None and abs(skew) <= MAX_SKEW_S
    return Check("clock", ok, "Clock", detail, "set the clock by NTP (timedatectl set-ntp true)", required=False)
