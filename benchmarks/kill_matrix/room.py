"""An installation of its own: Berth's processes, four sandbox nodes, and the failpoints' folder."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, TypeVar

from benchmarks.kill_matrix.steps import NODES, Step
from portal.env import REPO_DIR, Env, load
from portal.sandbox import SandboxCluster, SandboxNode
from portal.supervisor import Supervisor, processes

FOLDER = REPO_DIR / ".berth" / "kill-matrix"
AGENT_HOME = "var/lib/berth"
T = TypeVar("T")


class RoomTaken(Exception):
    """Another run has this folder."""


class WaitedInVain(Exception):
    """Something did not come about before its deadline."""


def until(look: Callable[[], T], what: str, *, seconds: float) -> T:
    """Return what `look` finds once it is true; raise WaitedInVain after that long."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise WaitedInVain(f"waited {seconds:.0f} s in vain until {what}")
        time.sleep(0.05)


class Room:
    """Open it, use it, close it; nothing of it stays."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(folder.with_name(folder.name + ".lock"))
        self.points = folder / "failpoints"
        self.image = ""
        self.nodes: dict[str, SandboxNode] = {}
        digest = zlib.crc32(str(folder).encode())
        own = ("km", "10.75.0.0/24") if folder == FOLDER else (f"k{digest:06x}"[:7], f"10.75.{1 + digest % 255}.0/24")
        self._port = 18500 + (0 if folder == FOLDER else 1 + digest % 400)
        self._cluster = SandboxCluster(folder / "sandbox", name=own[0], subnet=own[1])
        self._supervisor: Supervisor | None = None

    @property
    def supervisor(self) -> Supervisor:
        """Berth's processes, once the room is open."""
        assert self._supervisor is not None
        return self._supervisor

    @property
    def env(self) -> Env:
        """The settings of this installation."""
        return self.supervisor.env

    def open(self) -> None:
        """Start everything; an earlier run's remains go first."""
        self._cluster.destroy()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.points.mkdir(parents=True)
        self.folder.chmod(0o711)
        for name in [n for n in os.environ if n.startswith("BERTH_") or n in ("DATABASE_URL", "REDIS_URL")]:
            del os.environ[name]  # a developer's own installation is not to be killed
        os.environ["BERTH_DATA_DIR"] = str(self.folder)
        os.environ["BERTH_FAILPOINTS"] = str(self.points)
        os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
        env, table = processes(load().with_changes(http_port=self._port).with_free_port())
        self._supervisor = Supervisor(env, table)
        with ThreadPoolExecutor(1) as pool:
            nodes = pool.submit(self._power_on)
            self._supervisor.start()
            nodes.result()

    def close(self, *, keep: bool = False) -> None:
        """Stop the processes and remove nodes and data; `keep` leaves the processes' logs."""
        if self._supervisor is not None:
            self._supervisor.stop()
        self._cluster.destroy()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _power_on(self) -> None:
        self.image = self._cluster.build_mini_image()
        self.nodes = {name: self._cluster.add(f"gpu-{name}", model=model_of(name)) for name in NODES}

    # -- failpoints ------------------------------------------------------------------------------------------------

    def arm(self, step: Step, job: str) -> None:
        """Park whoever comes to this step, for this job alone where the point can be armed so."""
        path = self._point(step, job)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(path.name + ".hit").unlink(missing_ok=True)
        path.write_text("park")

    def hit(self, step: Step, job: str) -> str | None:
        """Return the key with which the point was reached, None when it was not."""
        path = self._point(step, job)
        path = path.with_name(path.name + ".hit")
        return path.read_text().strip() if path.exists() else None

    def release_portal(self) -> None:
        """Let the portal's parked processes go on."""
        for path in self.points.iterdir():
            if path.suffix != ".hit":
                path.unlink(missing_ok=True)

    def release_nodes(self) -> None:
        """Let parked agents go on."""
        for node in self.nodes.values():
            for path in (node.disk.disk / AGENT_HOME / "failpoints").glob("*"):
                if path.suffix != ".hit":
                    path.unlink(missing_ok=True)

    def _point(self, step: Step, job: str) -> Path:
        if step.on_node:
            return self.nodes[step.node].disk.disk / AGENT_HOME / "failpoints" / step.point
        return self.points / (step.point if step.everybody else f"{step.point}@{job}")

    # -- the nodes' own records ------------------------------------------------------------------------------------

    def journal(self, node: str) -> list[dict[str, Any]]:
        """Return what the node's agent noted of containers."""
        path = self.nodes[node].disk.disk / AGENT_HOME / "record" / "journal"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def heartbeat(self, node: str) -> dict[str, Any]:
        """Return the node's last proof of life, as it stands on its disk."""
        text = (self.nodes[node].disk.disk / AGENT_HOME / "record" / "heartbeat").read_text()
        return dict(json.loads(text))

    def node_leftovers(self, node: str) -> list[str]:
        """Return what is still on the node of any attempt."""
        home = self.nodes[node].disk.disk / AGENT_HOME
        found = [f"folder {path.name}" for path in (home / "record" / "attempts").glob("*")]
        found += [f"unacknowledged result {path.name}" for path in (home / "record" / "results").glob("*")]
        for what, command in _LOOKS.items():
            done = self.nodes[node].run(["sh", "-c", command])
            found += [f"{what} {line}" for line in done.stdout.split()]
        return [f"gpu-{node}: {one}" for one in found]


def _lock(path: Path) -> IO[str]:
    """Hold the folder's lock until this process ends: opening a room clears the folder."""
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RoomTaken(
            f"Another kill matrix runs in {path.with_suffix('')}: wait for it or name another --folder."
        ) from None
    return file


_LOOKS = {
    "container": "podman ps -aq --filter label=berth.attempt",
    "FIFO": "ls /run/berth/fifo",
    "holder": "grep -lzx 2147483647 /proc/[0-9]*/cmdline 2>/dev/null",
    "secret": "podman secret ls -q",
}


def model_of(node: str) -> str:
    """Return the GPU model that only this node has: so a job chooses its node."""
    return f"KM-{node.upper()} 80GB"
