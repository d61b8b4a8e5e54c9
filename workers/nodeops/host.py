"""What a host is like beneath the container runtime: login shell, control groups, kernel, driver, fabric."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# Each line is (section, shell), as in facts.py. Nothing here changes the node.
HOST_PROBES = (
    ("login_shell", 'getent passwd "$(id -un)" | cut -d: -f7'),
    ("inodes", "df -Pi /var/lib | tail -1"),
    ("controllers", "cat /sys/fs/cgroup/cgroup.controllers || awk '$4 == 1 { print $1 }' /proc/cgroups"),
    (
        "network",
        (
            "[ ! -e /proc/self/ns/net ] || echo netns; ! command -v nft >/dev/null || echo nft; "
            '{ modinfo vxlan || grep -w vxlan "/lib/modules/$(uname -r)/modules.builtin" || [ -d /sys/module/vxlan ] '
            "|| zcat /proc/config.gz | grep '^CONFIG_VXLAN='; } >/dev/null && echo vxlan"
        ),
    ),
    ("fabric", "timeout 8 nvidia-smi -q | grep -A 2 '^ *Fabric *$'"),
)
_FABRIC_FAULTS = ("not started", "in progress")


@dataclass(frozen=True)
class HostFacts:
    """What the host said; None and empty are unknown."""

    login_shell: str | None = None
    inodes_free: int | None = None
    controllers: frozenset[str] = frozenset()
    network: frozenset[str] | None = None
    driver_version: str | None = None
    library_version: str | None = None
    mismatch: bool = False
    fabric_states: tuple[str, ...] = ()

    @property
    def fabric_waits(self) -> bool:
        """True when a GPU's fabric has not come up: CUDA fails there with error 802."""
        return any(state.lower() in _FABRIC_FAULTS for state in self.fabric_states)


def parse_host(sections: Mapping[str, str]) -> HostFacts:
    """Host facts from sections; what can't be read stays unknown, and nothing raises."""
    smi = sections.get("smi", "")
    kernel = re.search(r"Kernel Module(?: for \S+)?\s+(\d{1,6}(?:\.\d{1,6}){1,3})\b", sections.get("nvidia", ""))
    library = re.search(r"NVML library version:\s*(\d{1,6}(?:\.\d{1,6}){1,3})\b", smi)
    shell = sections.get("login_shell", "").strip()
    network = frozenset(sections.get("network", "").split()) & {"netns", "nft", "vxlan"}
    return HostFacts(
        login_shell=shell if re.fullmatch(r"/[\x21-\x7e]{1,200}", shell) else None,
        inodes_free=_inodes(sections.get("inodes", "")),
        controllers=frozenset(re.findall(r"\b[a-z_]{1,20}\b", sections.get("controllers", ""))),
        network=network if "network" in sections else None,
        driver_version=kernel[1] if kernel else None,
        library_version=library[1] if library else None,
        mismatch="driver/library version mismatch" in smi.lower(),
        fabric_states=tuple(
            re.findall(r"^\s*State\s*:\s*(\S[^\n]{0,40}?)\s*$", sections.get("fabric", ""), re.MULTILINE)
        ),
    )


def refusal(words: str) -> tuple[str, str] | None:
    """(code, what to do) when a login was let in but its commands were not run; None for words of no known kind."""
    low = words.lower()
    if "password has expired" in low or "password change required" in low or "password is expired" in low:
        return "password_expired", "the user's password has expired: as root run `chage -M -1 -d $(date +%F) USER`"
    if "account is currently not available" in low or "nologin" in low:
        return "no_login_shell", "the user may not log in: as root run `usermod -s /bin/sh USER`"
    return None


def _inodes(text: str) -> int | None:
    """Free inodes; file systems that count none (btrfs) say 0 of 0, which is unknown."""
    words = text.split()
    if len(words) < 6 or not all(word.isascii() and word.isdigit() and len(word) < 20 for word in words[1:4]):
        return None
    return int(words[3]) if int(words[1]) else None
