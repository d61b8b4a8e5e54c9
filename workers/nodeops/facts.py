"""Preflight facts: one script, one pass, a pure parser."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workers.nodeops.commands import FIND_PYTHON, script_command
from workers.nodeops.host import HOST_PROBES, HostFacts, parse_host, refusal
from workers.nodeops.types import NodeOpError

if TYPE_CHECKING:
    from workers.ssh.types import Transport

_TIMEOUT_S = 75.0
_SECTION = re.compile(rb"^#([0-9a-f]{16}) ([a-z_]+)$", re.MULTILINE)

# Each line is (section, shell). Everything runs as the login user except where `root` stands in front.
_PROBES = (
    ("user", "id -u; id -un"),
    ("clock", "date +%s.%N"),
    ("sudo", "sudo -n true 2>&1; echo rc=$?"),
    ("os", "cat /etc/os-release; uname -srm"),
    (
        "python",
        f'{FIND_PYTHON}; [ "$python" = none ] || "$python" -I -S -c "import sys; print(sys.version.split()[0])"',
    ),
    ("podman", "root timeout 30 podman info --format json"),
    ("conmon", "command -v conmon"),
    ("nvidia", "[ ! -e /proc/driver/nvidia/version ] || head -1 /proc/driver/nvidia/version; ls /dev/nvidia[0-9]*"),
    ("smi", "timeout 20 nvidia-smi --query-gpu=uuid --format=csv,noheader 2>&1; echo rc=$?"),
    ("cdi", "root cat /etc/cdi/*.yaml /etc/cdi/*.json /var/run/cdi/*.yaml /var/run/cdi/*.json"),
    ("disk", "df -Pk /var/lib | tail -1"),
    ("cgroup", "cat /proc/mounts | grep -c ' cgroup2\\{0,1\\} '"),
    *HOST_PROBES,
)


@dataclass(frozen=True)
class Facts:
    """What a node said of itself; None is unknown."""

    user: str | None = None
    is_root: bool = False
    sudo: bool = False
    sudo_words: str = ""
    os: str | None = None
    kernel: str | None = None
    python: str | None = None
    podman: str | None = None
    runtime: str | None = None
    conmon: bool = False
    nvidia_devices: int = 0
    smi_gpus: tuple[str, ...] = ()
    smi_error: str | None = None
    cdi_devices: frozenset[str] = field(default_factory=frozenset)
    disk_free_mib: int | None = None
    cgroups: bool = False
    clock_skew_s: float | None = None
    noise_bytes: int = 0
    host: HostFacts = field(default_factory=HostFacts)


def gather(transport: Transport) -> Facts:
    """Ask a node; raises NodeOpError when it gives no sensible answer, SshError when it gives none."""
    mark = secrets.token_hex(8)
    before = time.time()
    result = transport.exec(script_command(), stdin=script(mark).encode(), timeout_s=_TIMEOUT_S)
    after = time.time()
    noise, sections = split(result.stdout, mark)
    if "end" not in sections:
        words = result.stderr.decode(errors="replace").strip()[-300:]
        known = refusal(result.stdout.decode(errors="replace")[-2000:] + words)
        if known:
            raise NodeOpError(*known)
        raise NodeOpError("no_shell", f"the node ran no /bin/sh script to its end: {words or 'no words'}")
    return parse(sections, noise_bytes=len(noise), now=(before + after) / 2, leeway_s=(after - before) / 2)


def script(mark: str) -> str:
    """The probe script; sections are told apart by a random mark, so that no output can pose as one."""
    lines = [
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH; LC_ALL=C; export LC_ALL",
        'root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }',
    ]
    for name, probe in _PROBES:
        body = probe.replace("root cat", "root /bin/sh -c 'cat") + "'" if probe.startswith("root cat") else probe
        lines += [f"echo; echo '#{mark} {name}'", f"{{ {body}; }} 2>/dev/null </dev/null"]
    return "\n".join([*lines, f"echo; echo '#{mark} end'", "exit 0"]) + "\n"


def split(output: bytes, mark: str) -> tuple[bytes, dict[str, str]]:
    """(what came before the first section, the sections' texts)."""
    found = [match for match in _SECTION.finditer(output) if match[1].decode() == mark]
    if not found:
        return output, {}
    ends = [match.start() for match in found[1:]] + [len(output)]
    sections = {
        match[2].decode(): output[match.end() : end].decode(errors="replace").strip()
        for match, end in zip(found, ends, strict=True)
    }
    return output[: found[0].start()].strip(), sections


def parse(sections: Mapping[str, str], *, noise_bytes: int, now: float, leeway_s: float) -> Facts:
    """Facts from sections; what can't be read stays unknown, and nothing raises."""
    user = sections.get("user", "").split()
    uname = sections.get("os", "").splitlines()[-1:] or [""]
    podman, runtime = _podman(sections.get("podman", ""))
    gpus, smi_error = _smi(sections.get("smi", ""))
    return Facts(
        user=user[1] if len(user) > 1 else None,
        is_root=user[:1] == ["0"],
        sudo=sections.get("sudo", "").endswith("rc=0"),
        sudo_words=sections.get("sudo", "").rpartition("rc=")[0].strip()[-200:],
        os=_os_name(sections.get("os", "")),
        kernel=uname[0] or None,
        python=_version(sections.get("python", "")),
        podman=podman,
        runtime=runtime,
        conmon=bool(sections.get("conmon")),
        nvidia_devices=sections.get("nvidia", "").count("/dev/nvidia"),
        smi_gpus=gpus,
        smi_error=smi_error,
        cdi_devices=frozenset(re.findall(r"name[\"']?\s*:\s*[\"']?([A-Za-z0-9_.:-]+)", sections.get("cdi", ""))),
        disk_free_mib=_disk_mib(sections.get("disk", "")),
        cgroups=sections.get("cgroup", "0") not in ("", "0"),
        clock_skew_s=_skew(sections.get("clock", ""), now, leeway_s),
        noise_bytes=noise_bytes,
        host=parse_host(sections),
    )


def version_tuple(text: str) -> tuple[int, ...]:
    """The leading numbers of a version."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def _podman(text: str) -> tuple[str | None, str | None]:
    try:
        info = json.loads(text)
        return str(info["version"]["Version"]), str(info["host"]["ociRuntime"]["name"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None, None


def _smi(text: str) -> tuple[tuple[str, ...], str | None]:
    body, _, rc = text.rpartition("rc=")
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    gpus = tuple(line for line in lines if re.fullmatch(r"(GPU|MIG)-[0-9a-fA-F-]+", line))
    if rc == "127":
        return (), "nvidia-smi is not installed"
    others = [line for line in lines if line not in gpus]
    return gpus, (others[0][:200] if others else None if rc == "0" else f"nvidia-smi ended with {rc or 'nothing'}")


def _os_name(text: str) -> str | None:
    match = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.MULTILINE)
    return match[1] if match else None


def _version(text: str) -> str | None:
    return text if version_tuple(text) else None


def _disk_mib(text: str) -> int | None:
    words = text.split()
    return int(words[3]) >> 10 if len(words) >= 6 and words[3].isascii() and words[3].isdigit() else None


def _skew(text: str, now: float, leeway_s: float) -> float | None:
    """Seconds that the node is ahead; differences within the round trip count as none."""
    try:
        ahead = float(text) - now
    except ValueError:
        return None
    if not abs(ahead) < 1e12:
        return None
    return 0.0 if abs(ahead) <= leeway_s else ahead
