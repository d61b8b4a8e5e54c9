"""The spine alive inside a test process: a real hub on real nodes, the real relay, tasks run as the queues would.

Only Celery's broker is replaced: the relay's `send` puts each call on a small thread pool.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from django.db import connection

from apps.core.clock import utc_now
from apps.core.models import Event
from apps.core.tenancy import system_scope
from apps.fleet.models import Node, NodeOperation
from apps.fleet.selectors import node_get
from apps.fleet.services import node_add, portal_key_public
from apps.fleet.types import NodeView
from apps.workloads.models import Attempt, Job
from portal.celery import app
from portal.sandbox import SandboxNode
from tests.spine_world import SYSTEM
from workers import metering, nodes, notifications, scheduling
from workers.hub import Hub
from workers.relay import outbox, sweeps

log = logging.getLogger(__name__)
T = TypeVar("T")
PATIENCE_S = 90.0
TASK_MODULES = (metering, nodes, notifications, scheduling)  # imported so that their tasks are registered


def until(look: Callable[[], T | None], what: str, *, seconds: float = PATIENCE_S) -> T:
    """Returns what `look` finds; fails the test when it finds nothing in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    pytest.fail(f"waited {seconds:.0f} s in vain: {what}")


class LiveSpine:
    """Start with `with`; several hubs may be played by making more of them."""

    def __init__(self, name: str = "test@live") -> None:
        self.hub = Hub(name=name)
        self._pool = ThreadPoolExecutor(8)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._relay, name="test-relay", daemon=True)
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> "LiveSpine":
        self._patch.setattr(outbox, "send", self._send)
        self._patch.setattr(sweeps, "send", self._send)
        self._patch.setattr(nodes, "_hub", self.hub)
        self.hub.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(20)
        self.hub.stop()
        self._pool.shutdown(cancel_futures=True)
        self._patch.undo()

    def _send(self, task: str, key: str, queue: str) -> None:
        if not self._stop.is_set():
            self._pool.submit(self._run, task, key)

    @staticmethod
    def _run(task: str, key: str) -> None:
        try:
            app.tasks[task](key, time.time())
        except Exception:
            log.exception("task %s %s", task, key)  # as Celery does; the sweep repeats it
        finally:
            connection.close()

    def _relay(self) -> None:
        next_sweep = 0.0
        while not self._stop.wait(0.02):
            outbox.drain()
            if time.monotonic() > next_sweep:
                next_sweep = time.monotonic() + 1
                sweeps.sweep_all()
        connection.close()

    # -- nodes and jobs --------------------------------------------------------------------------------------------

    def add(self, sandbox: SandboxNode, *, password: str | None = None, expected_fingerprint: str = "") -> Node:
        """Adds a node whose fingerprint is known beforehand, without waiting; the portal's key is put on it unless a
        password is given."""
        if password is None:
            line = portal_key_public()
            sandbox.run(["sh", "-c", f"mkdir -p -m 700 /root/.ssh && echo '{line}' >> /root/.ssh/authorized_keys"])
        return node_add(
            actor=SYSTEM, name=sandbox.spec.name, address=sandbox.address, password=password,
            expected_fingerprint=expected_fingerprint or sandbox.host_key_fingerprint, now=utc_now(),
        )  # fmt: skip

    def ready(self, sandbox: SandboxNode, *, password: str | None = None) -> NodeView:
        """Adds a node and waits until it is in service."""
        node = self.add(sandbox, password=password)
        return self.node_in(str(node.id), "ready")

    @staticmethod
    def node_in(node: str, *states: str) -> NodeView:
        """Waits until a node is in one of the states."""

        def look() -> NodeView | None:
            found = node_get(actor=SYSTEM, node=node)
            return found if found.state in states else None

        return until(look, f"node {node} is {' or '.join(states)}")

    @staticmethod
    def job_in(job: Job, *states: str, seconds: float = 40) -> Job:
        """Waits until a job is in one of the states."""

        def look() -> Job | None:
            with system_scope():
                found = Job.objects.get(pk=job.pk)
            return found if found.state in states else None

        try:
            return until(look, f"job {job.name} is {' or '.join(states)}", seconds=seconds)
        except pytest.fail.Exception:
            print(story_of(job))  # what a person would ask first
            raise


def attempts_of(job: Job) -> list[Attempt]:
    """Returns a job's attempts in order."""
    with system_scope():
        return list(Attempt.objects.filter(job=job).order_by("no").select_related("node"))


def story_of(job: Job) -> str:
    """Returns a job's events and its attempts' operations, for a failing test's output."""
    with system_scope():
        events = [f"{e.seq} {e.name} {e.data}" for e in Event.objects.filter(object_id=job.pk).order_by("seq")]
        attempts = list(Attempt.objects.filter(job=job).values("no", "state", "progress", "node_status_seq"))
        ids = list(Attempt.objects.filter(job=job).values_list("pk", flat=True))
        operations = list(NodeOperation.objects.filter(object_id__in=ids).values("kind", "state", "token", "result"))
    return "\n".join([*events, *map(str, attempts), *map(str, operations)])
