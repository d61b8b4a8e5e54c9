"""One simulated GPU node: boot, power cut, faults, and running commands in it."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from portal.sandbox import gpus, ipam, native, network
from portal.sandbox.cgroups import NodeCgroup
from portal.sandbox.disk import NodeDisk
from portal.sandbox.errors import DamagedStateError, SandboxError
from portal.sandbox.images import ImageStore
from portal.sandbox.shell import run, wait_until
from portal.sandbox.state import Gpu, NodeSpec, load_spec, locked

BOOT_TIMEOUT_S = 30
_NAMESPACES = ["-m", "-u", "-i", "-n", "-p", "-C", "-T", "-r", "-w"]  # all of the node's, its root and working folder
_ENVIRONMENT = [
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "LANG=C.UTF-8",
]


class SandboxNode:
    """A node found again from the cluster's state folder; nothing about it is kept in this process."""

    port = 22
    user = "root"

    def __init__(self, state_dir: Path, cluster: str, subnet: IPv4Network, name: str) -> None:
        self.name = name
        self._cluster = cluster
        self._subnet = subnet
        self._state_dir = state_dir
        self.disk = NodeDisk(state_dir / "nodes" / name)
        self._cgroup = NodeCgroup(f"berth-{cluster}-{name}")

    def __repr__(self) -> str:
        return f"SandboxNode({self._cluster}/{self.name})"

    # ---- what it is ----

    @property
    def spec(self) -> NodeSpec:
        """What the node was ordered as."""
        path = self.disk.folder / "node.json"
        if not path.exists():
            raise DamagedStateError(f"there is no sandbox node {self.name!r}")
        return load_spec(path)

    @property
    def address(self) -> str:
        """The node's IPv4 address."""
        return ipam.address(self._subnet, self.spec.host)

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The identities of the GPUs the node was ordered with."""
        return self.spec.gpus

    @property
    def private_key_path(self) -> Path:
        """The private key that root's login accepts."""
        return self._state_dir / "login_key"

    @property
    def password(self) -> str:
        """The node's own root password, for tests of a password used once."""
        return self.disk.password.read_text().strip()

    @property
    def host_public_key(self) -> str:
        """The node's host key as one OpenSSH line: type, key, comment."""
        return self.disk.host_key.with_suffix(".pub").read_text().strip()

    @property
    def host_key_fingerprint(self) -> str:
        """The SHA-256 fingerprint of the node's ed25519 host key, as OpenSSH prints it."""
        return self.disk.fingerprint()

    def boot_id(self) -> str:
        """Return the id of the current boot, or of the last one while the node is off."""
        if not self.disk.boot_id.exists():
            raise SandboxError(f"node {self.name} was never booted")
        return self.disk.boot_id.read_text().strip()

    def is_running(self) -> bool:
        """Return whether the node is on."""
        return self._cgroup.init_pid() is not None

    def status(self) -> str:
        """Return one word: off, frozen, partitioned, slow or running."""
        if not self.is_running():
            return "off"
        if self._cgroup.frozen():
            return "frozen"
        if not network.is_up(self._link):
            return "partitioned"
        return "slow" if network.is_slow(self._link) else "running"

    def describe(self) -> dict[str, Any]:
        """Return what `ls --json` prints."""
        spec = self.spec
        return {
            "name": self.name,
            "status": self.status(),
            "address": self.address,
            "port": self.port,
            "user": self.user,
            "private_key_path": str(self.private_key_path),
            "host_key_fingerprint": self.host_key_fingerprint if self.disk.host_key.exists() else None,
            "boot_id": self.boot_id() if self.disk.boot_id.exists() else None,
            "model": spec.model,
            "gpus": [gpu.uuid for gpu in spec.gpus],
            "lost_gpus": [gpu.minor for gpu in spec.gpus if gpus.is_lost(self._nvml(), gpu.minor)],
            "memory_mib": spec.memory_mib,
            "cpus": spec.cpus,
            "host_memory_mib": spec.host_memory_mib,
        }

    # ---- power ----

    def boot(self) -> None:
        """Switch the node on and wait until its sshd answers; nothing happens when it is on."""
        with self._lock():
            if self.is_running():
                return
            self._switch_off()
            try:
                self._switch_on()
            except SandboxError:
                self._switch_off()
                raise

    def power_cut(self) -> None:
        """Take the power away: the cable goes dead first, so that no connection is closed in good order."""
        with self._lock():
            self._switch_off()

    def _switch_off(self) -> None:
        if network.exists(self._link):
            network.set_link(self._link, up=False)
        self._cgroup.kill()
        network.remove(self._link)
        self._cgroup.remove()

    def _switch_on(self) -> None:
        spec = self.spec
        library_dir = library_folder()
        network.ensure_bridge(self._cluster, self._subnet, owner=str(self._state_dir))
        login_key = self.private_key_path.with_suffix(".pub").read_text()
        self.disk.create(hostname=self.name, login_key=login_key)
        self.disk.install(native.build(self._state_dir / "build"), library_dir)
        if not self.disk.nvml_state.exists():
            gpus.write_state(self.disk.nvml_state, gpus.first_state(spec))
        present = [gpu for gpu in spec.gpus if not gpus.is_lost(self._nvml(), gpu.minor)]
        self.disk.write_gpus(present, library_dir)
        self.disk.new_boot(host_memory_mib=spec.host_memory_mib, cpus=spec.cpus or os.cpu_count() or 1)
        self._cgroup.create(cpus=spec.cpus, memory_mib=spec.host_memory_mib)
        self._launch(present)
        pid = self._require_init()
        self._cgroup.settle()
        network.attach(
            self._link,
            bridge=ipam.bridge_name(self._cluster),
            pid=pid,
            mac=ipam.mac_address(self._cluster, spec.host),
            address=self.address,
            network=self._subnet,
        )
        if not wait_until(self._sshd_answers, timeout_s=BOOT_TIMEOUT_S, pause_s=0.02):
            raise SandboxError(f"node {self.name} did not come up within {BOOT_TIMEOUT_S} s: {self._last_words()}")

    def _launch(self, present: list[Gpu]) -> None:
        """Start process 1 detached from this process, in fresh namespaces; its clocks count from this boot."""
        since_boot = int(time.clock_gettime(time.CLOCK_BOOTTIME))
        monotonic = int(time.clock_gettime(time.CLOCK_MONOTONIC))
        clocks = ["--time", f"--boottime=-{since_boot}", f"--monotonic=-{monotonic}"]
        spaces = ["--net", "--mount", "--uts", "--ipc", "--pid", "--cgroup", "--fork", "--kill-child"]
        argv = ["setsid", "--fork", "sh", str(native.ENTER), *self._cgroup.procs_files, "--"]
        argv += ["unshare", *spaces, "--propagation=private", *clocks, "sh", str(native.BOOT)]
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "NODE_DIR": str(self.disk.folder),
            "NODE_NAME": self.name,
            "IMAGES_DIR": str(self._state_dir / "images"),
            "GPU_MINORS": " ".join(str(gpu.minor) for gpu in present),
            "CGROUPS": self._cgroup.boot_entries,
        }
        with self.disk.console.open("w") as console:
            subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=console, stderr=console, env=environment, check=True, timeout=10
            )

    def _require_init(self) -> int:
        if not wait_until(self.is_running, timeout_s=10):
            raise SandboxError(f"node {self.name} did not start: {self._last_words()}")
        return self._init_pid()

    def _sshd_answers(self) -> bool:
        try:
            with socket.create_connection((self.address, self.port), timeout=1) as connection:
                connection.settimeout(1)
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def _last_words(self) -> str:
        text = self.disk.console.read_text() if self.disk.console.exists() else ""
        return text.strip()[-800:] or "nothing on its console"

    # ---- faults ----

    def partition(self) -> None:
        """Cut the node's network; it keeps running."""
        self._init_pid()
        network.set_link(self._link, up=False)

    def heal(self) -> None:
        """Bring the node's network back."""
        self._init_pid()
        network.set_link(self._link, up=True)

    def freeze(self) -> None:
        """Stop every process of the node: its address answers pings, its sshd says nothing."""
        self._init_pid()
        self._cgroup.freeze()

    def thaw(self) -> None:
        """Let a frozen node go on."""
        self._cgroup.thaw()

    def slow(self, rate: str = "1mbit", latency_ms: int = 400) -> None:
        """Throttle the node's network to `rate` (in tc's words) with up to `latency_ms` of queue, both ways."""
        network.slow(self._link, self._init_pid(), rate=rate, latency_ms=latency_ms)

    def unslow(self) -> None:
        """Remove the throttle."""
        network.unslow(self._link, self._init_pid())

    # ---- GPUs ----

    def set_gpu(self, gpu: int, **raw: object) -> None:
        """Set raw values of the mock NVML for one GPU (see native/state.h); None removes a value."""
        self._check_gpu(gpu)
        with self._lock():
            gpus.write_state(self.disk.nvml_state, gpus.changed(self._nvml(), raw, prefix=f"gpu{gpu}."))

    def set_driver(self, **raw: object) -> None:
        """Set raw values of the whole mock driver, such as init_error=18 or driver="570.1"; None removes one."""
        with self._lock():
            gpus.write_state(self.disk.nvml_state, gpus.changed(self._nvml(), raw))

    def overheat(self, gpu: int, celsius: int) -> None:
        """Let a GPU report this temperature; from 89 °C on it throttles."""
        self.set_gpu(gpu, temp=int(celsius))

    def drop_gpu(self, gpu: int) -> None:
        """Let a GPU fall off the bus: NVML says GPU_IS_LOST, Xid 79 is raised, the next boot does not find it."""
        if not gpus.is_lost(self._nvml(), gpu):
            self.raise_xid(gpu, gpus.XID_FELL_OFF_THE_BUS)
            self.set_gpu(gpu, lost=1)

    def raise_xid(self, gpu: int, code: int) -> None:
        """Deliver an Xid event of a GPU to every process that listens for it."""
        self._check_gpu(gpu)
        with (self.disk.nvml / "events").open("a") as events:
            events.write(f"xid={gpu}:{int(code)}\n")

    def restore_gpu(self, gpu: int) -> None:
        """Bring a GPU back, without its faults, also on a running node."""
        self._check_gpu(gpu)
        fresh = gpus.first_state(self.spec)
        prefix = f"gpu{gpu}."
        with self._lock():
            keys = {key: value for key, value in self._nvml().items() if not key.startswith(prefix)}
            keys |= {key: value for key, value in fresh.items() if key.startswith(prefix)}
            gpus.write_state(self.disk.nvml_state, keys)
        if self.is_running():
            node = f"/dev/nvidia{gpu}"
            self._must(["sh", "-c", 'test -e "$1" || mknod -m 666 "$1" c "$2" "$3"', "sh", node, "195", str(gpu)])
            present = [each for each in self.gpus if not gpus.is_lost(self._nvml(), each.minor)]
            self.write_file("/etc/cdi/nvidia.yaml", gpus.cdi_text(present, library_folder()))

    def _check_gpu(self, gpu: int) -> None:
        if gpu not in {each.minor for each in self.spec.gpus}:
            raise SandboxError(f"node {self.name} has no GPU {gpu}; it has 0 to {len(self.spec.gpus) - 1}")

    def _nvml(self) -> dict[str, str]:
        return gpus.read_state(self.disk.nvml_state)

    # ---- commands and files ----

    def enter_argv(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs `argv` inside the node, in its cgroups and all its namespaces."""
        pid = self._init_pid()
        if self._cgroup.frozen():
            raise SandboxError(f"node {self.name} is frozen; thaw it first")
        join = ["sh", str(native.ENTER), *self._cgroup.procs_files, "--"]
        spaces = ["nsenter", f"--target={pid}", *_NAMESPACES, "--"]
        return [*join, *spaces, "env", "-i", *_ENVIRONMENT, *argv]

    def run(
        self, argv: Sequence[str], *, timeout_s: float = 60, input_text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside the node, out of band; raise SandboxError when it takes too long."""
        bounded = self.enter_argv(["timeout", "--kill-after=2", str(timeout_s), *argv])
        # files instead of pipes: a daemon that the command leaves behind must not keep us waiting
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write((input_text or "").encode())
            given.seek(0)
            try:
                done = subprocess.run(bounded, stdin=given, stdout=out, stderr=err, timeout=timeout_s + 10, check=False)
            except subprocess.TimeoutExpired as error:
                raise SandboxError(f"{self.name}: `{argv[0]}` did not end within {timeout_s:g} s") from error
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        if done.returncode == 124:
            raise SandboxError(f"{self.name}: `{argv[0]}` did not end within {timeout_s:g} s: {texts[1][-300:]}")
        return subprocess.CompletedProcess(list(argv), done.returncode, *texts)

    def write_file(self, path: str, text: str, *, mode: int = 0o644) -> None:
        """Write a file inside the running node, making its folders."""
        step = 'mkdir -p "$(dirname "$1")" && cat > "$1" && chmod "$2" "$1"'
        self._must(["sh", "-c", step, "sh", path, f"{mode:o}"], input_text=text)

    def load_image(self, archive: Path, name: str | None = None) -> str:
        """Make an image present on this node, and through the shared store on all others; return its name."""
        return ImageStore(self._state_dir / "images").load(archive, name)

    def _must(self, argv: Sequence[str], *, input_text: str | None = None) -> None:
        done = self.run(argv, input_text=input_text)
        if done.returncode != 0:
            raise SandboxError(f"{self.name}: `{argv[0]}` failed ({done.returncode}): {done.stderr.strip()[-300:]}")

    # ---- removal ----

    def remove(self) -> None:
        """End the node and remove all of it, also when it was only half made."""
        if not self.disk.folder.exists():
            return
        with self._lock():
            try:
                self._switch_off()
            except DamagedStateError:  # without its number the cable has no name; it goes with the node's processes
                self._cgroup.kill()
                self._cgroup.remove()
            run(["rm", "-rf", "--one-file-system", str(self.disk.folder)], timeout_s=120)

    @property
    def _link(self) -> str:
        return ipam.link_name(self._cluster, self.spec.host)

    def _init_pid(self) -> int:
        pid = self._cgroup.init_pid()
        if pid is None:
            self.spec  # noqa: B018  a node that does not exist gets its own message
            raise SandboxError(f"node {self.name} is off; boot it first")
        return pid

    def _lock(self) -> AbstractContextManager[None]:
        return locked(self._state_dir / "locks" / self.name)


def library_folder() -> str:
    """Return the machine's folder of shared libraries, where the bindings look without any setting."""
    return f"/usr/lib/{os.uname().machine}-linux-gnu"
