"""A node's own disk: the folders that survive a power cut, and the settings written into them."""

import base64
import hashlib
import os
import resource
import secrets
import shutil
import uuid
from pathlib import Path

from portal.sandbox import gpus
from portal.sandbox.errors import SandboxError
from portal.sandbox.native import LIBRARY
from portal.sandbox.shell import run
from portal.sandbox.state import Gpu, write_atomic

IMAGES_IN_NODE = "/var/lib/sandbox-images"
_ULIMIT = 65536
_OVERLAYS = ("usr", "etc", "dpkg", "apt")
_BINDS = ("var", "root", "home", "opt", "srv")

_SSHD_CONFIG = """\
Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin yes
PasswordAuthentication yes
UsePAM no
PrintMotd no
Subsystem sftp internal-sftp
# stock limits, written out because tests rely on them
MaxSessions 10
MaxStartups 10:30:100
"""

_CONTAINERS_CONF = """\
[containers]
netns = "none"
default_ulimits = ["nofile={nofile}:{nofile}", "nproc={nproc}:{nproc}"]

[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""

_STORAGE_CONF = f"""\
[storage]
driver = "overlay"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"

[storage.options]
additionalimagestores = ["{IMAGES_IN_NODE}"]
"""


class NodeDisk:
    """The folder of one node below the cluster's state folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk = folder / "disk"
        self.nvml = folder / "nvml"
        self.nvml_state = self.nvml / "state"
        self.host_key = folder / "ssh_host_ed25519_key"
        self.boot_id = folder / "boot_id"
        self.console = folder / "console.log"
        self.password = folder / "password"

    @property
    def etc(self) -> Path:
        """Where the node's own files of /etc lie."""
        return self.disk / "etc/upper"

    @property
    def usr(self) -> Path:
        """Where the node's own files of /usr lie."""
        return self.disk / "usr/upper"

    def create(self, *, hostname: str, login_key: str) -> None:
        """Make the folders, the node's keys and its settings; what exists is kept."""
        for name in _OVERLAYS:
            for part in ("upper", "work"):
                (self.disk / name / part).mkdir(parents=True, exist_ok=True)
        for name in _BINDS:
            (self.disk / name).mkdir(exist_ok=True)
        self._make_var()
        for folder in (self.folder / "root", self.nvml):
            folder.mkdir(exist_ok=True)
        if not self.host_key.exists():
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", hostname, "-f", str(self.host_key)])
        if not (self.etc / "hostname").exists():
            self._write_settings(hostname, login_key)

    def install(self, built: Path, library_dir: str) -> None:
        """Put the mock driver and the node's init in place, when they differ from what is there."""
        own = self.usr / "lib/berth-sandbox"
        places = {
            LIBRARY: self.usr.parent.joinpath("upper", library_dir.removeprefix("/usr/"), LIBRARY),
            "nvidia-smi": self.usr / "bin/nvidia-smi",
            "gpuhook": own / "gpuhook",
            "init": own / "init",
        }
        for name, target in places.items():
            if target.exists() and target.read_bytes() == (built / name).read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(built / name, target)
            target.chmod(0o755)

    def write_gpus(self, present: list[Gpu], library_dir: str) -> None:
        """Write the CDI file for the GPUs that are there, none without GPUs; the node must be off."""
        file = self.etc / "cdi/nvidia.yaml"
        file.parent.mkdir(exist_ok=True)
        file.unlink(missing_ok=True)
        if present:
            write_atomic(file, gpus.cdi_text(present, library_dir))

    def new_boot(self, *, host_memory_mib: int, cpus: int) -> None:
        """Write what differs at each boot: boot id, memory and CPU figures, no busy GPU, no old event."""
        write_atomic(self.boot_id, f"{uuid.uuid4()}\n", mode=0o444)
        write_atomic(self.folder / "meminfo", meminfo(Path("/proc/meminfo").read_text(), host_memory_mib))
        write_atomic(self.folder / "cpuinfo", cpuinfo(Path("/proc/cpuinfo").read_text(), cpus))
        write_atomic(self.folder / "cpu_online", f"0-{cpus - 1}\n" if cpus > 1 else "0\n")
        (self.etc / "containers/containers.conf").write_text(containers_conf())
        shutil.rmtree(self.nvml / "busy", ignore_errors=True)
        (self.nvml / "events").write_text("")

    def fingerprint(self) -> str:
        """Return the host key's fingerprint as OpenSSH prints it."""
        return fingerprint(self.host_key.with_suffix(".pub").read_text())

    def _make_var(self) -> None:
        for name in ("lib/containers", "lib/berth", "lib/dpkg", "lib/apt", "log", "spool", "cache/apt"):
            (self.disk / "var" / name).mkdir(parents=True, exist_ok=True)
        (self.disk / "var/tmp").mkdir(exist_ok=True)
        (self.disk / "var/tmp").chmod(0o1777)
        for name, target in (("run", "/run"), ("lock", "/run/lock")):
            if not (self.disk / "var" / name).is_symlink():
                (self.disk / "var" / name).symlink_to(target)

    def _write_settings(self, hostname: str, login_key: str) -> None:
        password = secrets.token_urlsafe(18)
        write_atomic(self.password, password + "\n", mode=0o600)
        hashed = run(["openssl", "passwd", "-6", "-stdin"], input_text=password).strip()
        shadow = with_root_password(Path("/etc/shadow").read_text(), hashed)
        write_atomic(self.etc / "shadow", shadow, mode=0o640)
        for name in ("ssh", "containers"):
            (self.etc / name).mkdir(exist_ok=True)
        os.setxattr(self.etc / "ssh", "trusted.overlay.opaque", b"y")  # hides the machine's own host keys
        for suffix, mode in (("", 0o600), (".pub", 0o644)):
            key = Path(f"{self.host_key}{suffix}").read_text()
            write_atomic(self.etc / "ssh" / f"ssh_host_ed25519_key{suffix}", key, mode=mode)
        (self.etc / "ssh/sshd_config").write_text(_SSHD_CONFIG)
        (self.etc / "containers/storage.conf").write_text(_STORAGE_CONF)
        (self.etc / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {hostname}\n::1 localhost\n")
        (self.etc / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
        (self.disk / "root").chmod(0o700)
        (self.disk / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
        write_atomic(self.disk / "root/.ssh/authorized_keys", login_key, mode=0o600)
        (self.etc / "hostname").write_text(f"{hostname}\n")  # last: it marks the settings as complete


def containers_conf() -> str:
    """Return the node's containers.conf; podman must not ask for more than this machine's limits allow."""
    limits = {}
    for name, number in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        hard = resource.getrlimit(number)[1]
        limits[name] = _ULIMIT if hard == resource.RLIM_INFINITY else min(hard, _ULIMIT)
    return _CONTAINERS_CONF.format_map(limits)


def fingerprint(public_key_line: str) -> str:
    """Return `SHA256:...` of an OpenSSH public key line."""
    blob = base64.b64decode(public_key_line.split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def with_root_password(shadow: str, hashed: str) -> str:
    """Return the text of /etc/shadow with root's password replaced."""
    lines = []
    for line in shadow.splitlines():
        fields = line.split(":")
        if fields[0] == "root":
            fields[1] = hashed
        lines.append(":".join(fields))
    return "\n".join(lines) + "\n"


def meminfo(machine: str, host_memory_mib: int) -> str:
    """Return the text of /proc/meminfo for a node with this much memory, all of it free."""
    total_kib = host_memory_mib << 10
    sizes = {"MemTotal:": total_kib, "MemFree:": total_kib, "MemAvailable:": total_kib, "SwapTotal:": 0, "SwapFree:": 0}
    lines = []
    for line in machine.splitlines():
        key = line.split(maxsplit=1)[0]
        lines.append(f"{key:<15} {sizes[key]:>8} kB" if key in sizes else line)
    return "\n".join(lines) + "\n"


def cpuinfo(machine: str, cpus: int) -> str:
    """Return the text of /proc/cpuinfo for a node with this many CPUs, all like the machine's first."""
    first = machine.split("\n\n", 1)[0].splitlines()
    own = {"processor", "core id", "apicid", "initial apicid"}
    blocks = []
    for number in range(cpus):
        lines = [f"{line.partition(':')[0]}: {number}" if line.partition("\t")[0] in own else line for line in first]
        blocks.append("\n".join(lines) + "\n\n")
    return "".join(blocks)


def check_place(state_dir: Path) -> None:
    """Raise unless nodes can keep their disks in this folder."""
    text = str(state_dir)
    if any(sign in text for sign in ',:\\ \t\n"'):
        raise SandboxError(f"state folder {text!r}: overlay mounts allow no spaces, commas, colons or quotes in it")
    if any(state_dir.is_relative_to(top) for top in ("/usr", "/etc", "/var/lib/dpkg", "/var/lib/apt")):
        raise SandboxError(f"state folder {text}: not below /usr or /etc, which are the lower layer of every node")


def check_file_system(folder: Path) -> None:
    """Raise unless the folder's file system can carry a node's writable layer."""
    if run(["stat", "-f", "-c", "%T", str(folder)]).strip() == "overlayfs":
        raise SandboxError(f"{folder} lies in a container's own layer; put the state folder on a real disk or volume")
