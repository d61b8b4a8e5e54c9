"""What the benchmarks share: an installation with one sandbox node, a client, an OpenSSH reference, a report."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from portal import embedded
from portal.env import REPO_DIR, load
from portal.sandbox import SandboxCluster, SandboxNode
from portal.supervisor import Supervisor, processes

FOLDER = REPO_DIR / ".berth" / "bench"
AGENT_HOME = "var/lib/berth"
EMAIL = "bench@example.org"
PATIENCE_S = 90.0
T = TypeVar("T")


def until(look: Callable[[], T], what: str, *, seconds: float = PATIENCE_S) -> T:
    """Return what `look` finds once it is true; raise TimeoutError after that long."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s in vain until {what}")
        time.sleep(0.02)


class Room:
    """Berth's processes and one sandbox node that is in service, in a folder of their own."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        self.image = ""
        self._cluster = SandboxCluster(folder / "sandbox", name="bm", subnet="10.74.0.0/24")
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> Room:
        with contextlib.ExitStack() as exits:
            exits.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self._open(exits)
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._exits.close()

    def _open(self, exits: contextlib.ExitStack) -> None:
        for name in [n for n in os.environ if n.startswith("BERTH_") or n in ("DATABASE_URL", "REDIS_URL")]:
            del os.environ[name]  # a developer's own installation is not to be measured
        self._cluster.destroy()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o711)
        os.environ["BERTH_DATA_DIR"] = str(self.folder)
        os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
        embedded.stop(load())
        self.env, table = processes(load().with_free_port())
        self.supervisor = exits.enter_context(Supervisor(self.env, table))
        exits.callback(self._cluster.destroy)
        self.image = self._cluster.build_mini_image()
        self.node: SandboxNode = self._cluster.add("bench-01")
        import django

        django.setup()  # only now: the settings need the servers' addresses
        self._make_people()
        self._add_node()

    def _make_people(self) -> None:
        from apps.accounts.services import membership_set, user_create
        from apps.core.access import service_actor
        from apps.core.clock import utc_now
        from apps.tenants.services import tenant_create

        self.password = os.urandom(9).hex()
        setup, now = service_actor("bench"), utc_now()
        slug = f"bench-{uuid.uuid4().hex[:8]}"
        tenant = tenant_create(actor=setup, slug=slug, name="Bench", ceilings={}, now=now)
        user = user_create(actor=setup, email=f"{slug}-{EMAIL}", password=self.password, is_operator=False, now=now)
        membership_set(actor=setup, tenant=tenant, user=user, role="owner", now=now)
        self.email = user.email

    def _add_node(self) -> None:
        from apps.core.access import service_actor
        from apps.core.clock import utc_now
        from apps.fleet.selectors import node_get
        from apps.fleet.services import node_add, portal_key_public

        operator = service_actor("bench")
        key = f"mkdir -p -m 700 /root/.ssh && echo '{portal_key_public()}' >> /root/.ssh/authorized_keys"
        self.node.run(["sh", "-c", key])
        added = node_add(
            actor=operator, name=self.node.spec.name, address=self.node.address,
            expected_fingerprint=self.node.host_key_fingerprint, now=utc_now(),
        )  # fmt: skip
        until(lambda: node_get(actor=operator, node=str(added.id)).state == "ready", "the node is ready")

    def client(self) -> Any:
        """Return a signed-in client as the berth command has it."""
        from cli.client import Client, make_http
        from cli.config import ConfigStore, Profile

        profile = Profile(url=f"http://127.0.0.1:{self.env.http_port}")
        store = ConfigStore(self.folder / "client" / "config.json")
        client = Client(store, "default", profile, http=make_http(profile))
        client.sign_in(self.email, self.password)
        return client

    def settle(self, job_id: str) -> None:
        """Wait until the node keeps nothing of a job any more, so that its end does not disturb the next sample."""
        from apps.core.tenancy import system_scope
        from apps.workloads.models import Attempt

        def removed() -> bool:
            with system_scope():
                states = list(Attempt.objects.filter(job_id=job_id).values_list("removed_at", flat=True))
            return bool(states) and None not in states

        until(removed, f"job {job_id} is removed from its node")

    def attempt_folder(self, attempt: str) -> Path:
        """Return where the node's agent keeps an attempt until it is removed."""
        return self.node.disk.disk / AGENT_HOME / "record" / "attempts" / attempt

    def blob(self, attempt: str) -> Path:
        """Return the file of an attempt's log in the portal's blob store."""
        return self.folder / "blobs" / "streams" / attempt / "0"


class Ssh:
    """OpenSSH to the node over one connection that is open already (ControlMaster)."""

    def __init__(self, node: SandboxNode, folder: Path) -> None:
        socket = folder / "ssh.sock"
        known = folder / "known_hosts"
        known.write_text(f"{node.address} {node.host_public_key}\n")
        common = ["-S", str(socket), "-o", f"UserKnownHostsFile={known}", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"]
        self._target = f"{node.user}@{node.address}"
        self._argv = ["ssh", *common]
        master = [*self._argv, "-i", str(node.private_key_path), "-o", "ControlMaster=yes", "-o", "ControlPersist=yes"]
        subprocess.run([*master, "-f", "-N", self._target], check=True, timeout=20, stdin=subprocess.DEVNULL)

    def argv(self, command: str) -> list[str]:
        """Return the command line that runs a shell command on the node."""
        return [*self._argv, self._target, command]

    def __enter__(self) -> Ssh:
        return self

    def __exit__(self, *exception: object) -> None:
        subprocess.run([*self._argv, "-O", "exit", self._target], check=False, capture_output=True, timeout=20)


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile by linear interpolation."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spread(values: Sequence[float]) -> list[float]:
    """Return p10 and p90."""
    return [round(percentile(values, 10), 4), round(percentile(values, 90), 4)]


def median(values: Sequence[float]) -> float:
    """Return the median, rounded for the report."""
    return round(statistics.median(values), 4)


@contextlib.contextmanager
def timed(record: dict[str, float], name: str) -> Iterator[None]:
    """Note how long the block took, in seconds."""
    began = time.perf_counter()
    yield
    record[name] = time.perf_counter() - began


def report(**values: Any) -> None:
    """Print the result as the last line: one JSON object."""
    print(json.dumps({**values, "load_average": os.getloadavg()}), flush=True)
