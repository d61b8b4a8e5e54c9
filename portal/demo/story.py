"""What the demo does once the processes run: people, nodes, image, job, and what is told at the end."""

import datetime as dt
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from apps.accounts.models import User
from apps.accounts.selectors import actor_for
from apps.accounts.services import membership_set, user_create
from apps.core.access import service_actor
from apps.core.clock import utc_now
from apps.core.errors import NotFound
from apps.fleet.choices import NodeState
from apps.fleet.selectors import node_get
from apps.fleet.services import node_add, node_mark_down, node_retire, node_trust, portal_key_public
from apps.fleet.types import NodeView
from apps.tenants.selectors import tenant_by_slug
from apps.tenants.services import tenant_create
from portal.env import Env
from portal.sandbox import SandboxNode

OPERATOR = "operator@example.org"
MEMBER = "ada@example.org"
TENANT = "orchard"
READY_WITHIN_S = 90.0
JOB_EPOCHS = 60
T = TypeVar("T")


class DemoError(Exception):
    """A step of the demo failed; the message says which and why."""


class Story:
    """The demo's steps, in order: prepare, train, tell."""

    def __init__(self, env: Env, *, image: str, say: Callable[[str], None]) -> None:
        self._env = env
        self._say = say
        self._password = env.secret("demo_password", lambda: os.urandom(9).hex())
        self._image = image
        self._job: dict[str, Any] = {}

    def prepare(self, nodes: Sequence[SandboxNode]) -> None:
        """Makes people and adds the nodes as an operator does."""
        self._people()
        for node in nodes:
            self._add_node(node)
        for sandbox in nodes:
            ready = self._await_ready(sandbox.spec.name)
            self._say(f"node {ready.name} is ready: {len(ready.gpus)} × {ready.gpus[0].model if ready.gpus else 'GPU'}")

    def train(self) -> str:
        """Submits the job as its user with the berth command and follows its log; returns why it failed, or nothing."""
        self._berth("login", "--url", self._env.public_url, "--email", MEMBER, text=self._password)
        self._say(f"submitting a training job as {MEMBER}; its log follows")
        argv = [
            "job", "submit", "--name", "digits", "--image", self._image, "--gpus", "2", "--cpus", "1",
            "--memory", "1Gi",
            "--env", "OPENBLAS_NUM_THREADS=1", "--env", f"EPOCHS={JOB_EPOCHS}", "--follow",
            "--", "python3", "/opt/demo/train.py",
        ]  # fmt: skip
        subprocess.run(self._argv(*argv), env=self._environ(), check=False)
        jobs = json.loads(self._berth("job", "ls", "--json"))
        self._job = json.loads(self._berth("job", "show", jobs[0]["id"], "--json"))
        if self._job["result"] == "succeeded":
            return ""
        end = self._job["end"] or self._job["waits"] or {}
        return str(end.get("text") or self._job["state"])

    def tell(self) -> None:
        """Prints what the job did and where to look."""
        job, log = self._job, self._log()
        accuracy = next(
            (line.rsplit(" ", 1)[-1] for line in log.splitlines() if line.startswith("final accuracy")), "–"
        )
        attempt = job["attempts"][-1] if job.get("attempts") else {}
        started = _seconds(job.get("created_at"), job.get("started_at"))
        mails = sorted(self._env.mail_dir.glob("*.eml")) if self._env.mail_dir.exists() else []
        print(
            f"""
Job {job.get("name")} {job.get("result") or job.get("state")} on {attempt.get("node", "–")}
  accuracy          {accuracy}
  GPU-seconds       {job.get("gpu_seconds") or "–"}
  start latency     {started} from submit to running
  log               {attempt.get("log_bytes", 0)} bytes, SHA-256 {attempt.get("log_sha256", "")[:16]}…
  mails             {len(mails)} in {self._env.mail_dir}

Console    {self._env.public_url}
  user     {MEMBER}   password {self._password}
  operator {OPERATOR}   password {self._password}""",
            flush=True,
        )

    # -- people ----------------------------------------------------------------------------------------------------

    def _people(self) -> None:
        setup = service_actor("demo")
        now = utc_now()
        tenant = tenant_by_slug(TENANT) or tenant_create(
            actor=setup, slug=TENANT, name="Orchard Lab", ceilings={"gpus": 16, "jobs": 100}, now=now
        )
        for email, operator in ((OPERATOR, True), (MEMBER, False)):
            user = User.objects.filter(email=email).first() or user_create(
                actor=setup, email=email, password=self._password, is_operator=operator, now=now
            )
            if not operator:
                membership_set(actor=setup, tenant=tenant, user=user, role="owner", now=now)
        self._operator = actor_for(User.objects.get(email=OPERATOR))

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _add_node(self, sandbox: SandboxNode) -> None:
        """What an operator does: put the portal's key on the node, add it, compare the fingerprint, confirm."""
        name = sandbox.spec.name
        self._retire_earlier(name)
        add_key = f"mkdir -p -m 700 /root/.ssh && echo '{portal_key_public()}' >> /root/.ssh/authorized_keys"
        sandbox.run(["sh", "-c", add_key])
        self._say(f"adding node {name} at {sandbox.address}, host key {sandbox.host_key_fingerprint}")
        node = node_add(actor=self._operator, name=name, address=sandbox.address, ssh_user=sandbox.user, now=utc_now())
        offered = self._until(
            lambda: node_get(actor=self._operator, node=str(node.id)).offered_fingerprint, f"{name} shows its host key"
        )
        if offered != sandbox.host_key_fingerprint:
            raise DemoError(f"{name} shows host key {offered}, not its own")
        node_trust(actor=self._operator, node_id=node.id, fingerprint_seen=offered, now=utc_now())

    def _retire_earlier(self, name: str) -> None:
        """A node of an earlier run is another machine with the same name: its host key differs."""
        try:
            node = node_get(actor=self._operator, node=name)
        except NotFound:
            return
        self._say(f"retiring the {name} of an earlier run")
        if node.state not in (NodeState.UNREACHABLE, NodeState.DOWN):
            node = self._until(lambda: self._silent(name), f"the earlier {name} counts as unreachable")
        if node.state == NodeState.UNREACHABLE:
            node_mark_down(node_id=node.id, reason="the demo's sandbox was removed", now=utc_now())
        self._until(lambda: self._unheld(name), f"the earlier {name} holds no job")
        node_retire(actor=self._operator, node_id=node.id, now=utc_now())

    def _silent(self, name: str) -> NodeView | None:
        node = node_get(actor=self._operator, node=name)
        return node if node.state in (NodeState.UNREACHABLE, NodeState.DOWN, NodeState.ENROLLING) else None

    def _unheld(self, name: str) -> bool:
        return all(gpu.share_free == 1000 for gpu in node_get(actor=self._operator, node=name).gpus)

    def _await_ready(self, name: str) -> NodeView:
        def ready() -> NodeView | None:
            node = node_get(actor=self._operator, node=name)
            return node if node.state == NodeState.READY else None

        try:
            return self._until(ready, f"{name} is ready")
        except DemoError:
            node = node_get(actor=self._operator, node=name)
            raise DemoError(f"node {name} is {node.state}: {node.state_detail}") from None

    @staticmethod
    def _until(look: Callable[[], T | None], what: str) -> T:
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            found = look()
            if found:
                return found
            time.sleep(0.1)
        raise DemoError(f"waited {READY_WITHIN_S:.0f} s in vain until {what}")

    # -- the berth command -----------------------------------------------------------------------------------------

    def _argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "cli", *words]

    def _environ(self) -> dict[str, str]:
        return {**os.environ, "XDG_CONFIG_HOME": str(self._env.data_dir / "demo" / "config")}

    def _berth(self, *words: str, text: str = "") -> str:
        done = subprocess.run(
            self._argv(*words), env=self._environ(), input=text, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise DemoError(f"berth {words[0]}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def _log(self) -> str:
        return self._berth("job", "logs", self._job["id"]) if self._job.get("attempts") else ""


def _seconds(begin: str | None, end: str | None) -> str:
    if not begin or not end:
        return "–"
    return f"{(dt.datetime.fromisoformat(end) - dt.datetime.fromisoformat(begin)).total_seconds():.2f} s"
