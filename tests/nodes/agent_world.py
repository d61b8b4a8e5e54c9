"""One node with an agent, whatever the transport, and the hub's side of it."""

from __future__ import annotations

import hashlib
import json
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from tests.unit.link.recorder import Recorder
from workers.agent.build import Agent, built_agent
from workers.link import AgentLink, Op, Result, Status
from workers.nodeops import attach_command, install_agent
from workers.ssh import SshError, Transport

ENDS = ("exited", "failed", "cancelled", "lost")


class World:
    """Connects when asked; `token` grows with each link as the portal's leases do."""

    def __init__(self, connect: Callable[[], Transport], *, home: str, image: str, agent: Agent | None = None) -> None:
        self.connect = connect
        self.home = home
        self.image = image
        self.agent = agent or built_agent()
        self.hub = Recorder()
        self.transport = connect()
        self._link: AgentLink | None = None
        self._thread: threading.Thread | None = None
        self._token = time.time_ns()  # greater than any earlier test's on the same node

    @property
    def link(self) -> AgentLink:
        assert self._link is not None
        return self._link

    def attach(self, *, dead_after_s: float = 8) -> None:
        """Install the agent and link up; returns after the hello."""
        if not self.transport.alive:
            self.until(self._reconnect, what="reconnect")
        install_agent(self.transport, self.agent.path, self.agent.version, home=self.home)
        self._token += 1
        greeted = len(self.hub.hellos)
        link = AgentLink(
            self.transport,
            version=self.agent.version,
            link_token=self._token,
            handler=self.hub,
            dead_after_s=dead_after_s,
            command=lambda version, nonce: attach_command(version, nonce, home=self.home),
        )
        self._link = link
        self._thread = threading.Thread(target=link.run, name="test-link")
        self._thread.start()
        self.hub.wait(lambda: len(self.hub.hellos) > greeted or not self._alive())
        assert len(self.hub.hellos) > greeted, self.hub.closed

    def detach(self) -> None:
        """End the link, not the agent."""
        if self._link is not None:
            self._link.close()
        if self._thread is not None:
            self._thread.join(20)
            assert not self._thread.is_alive()

    def close(self) -> None:
        """End everything of this side."""
        self.detach()
        self.transport.close()

    def op(self, kind: str, *, op_id: str | None = None, token: int = 1, timeout_s: float = 60, **args: Any) -> Result:
        """Carry out an operation and return its result."""
        name = op_id or str(uuid.uuid4())
        self.hub.results.pop(name, None)
        self.link.send_op(Op(name, token, kind, args))
        self.hub.wait(lambda: name in self.hub.results, timeout_s)
        return self.hub.results[name]

    def spec(self, *command: str, **changes: Any) -> dict[str, Any]:
        """A small attempt."""
        values: dict[str, Any] = {
            "attempt_id": str(uuid.uuid4()),
            "job_id": str(uuid.uuid4()),
            "tenant_id": str(uuid.uuid4()),
            "image": self.image,
            "command": list(command),
            "env": {},
            "gpus": [],
            "cpus": 1.0,
            "memory_mib": 256,
            "shm_mib": 16,
            "time_limit_s": 0,
            "stop_grace_s": 1,
            "log_limit_bytes": 4 << 30,
            "outputs_limit_bytes": 64 << 20,
            "files": [],
            "network": "none",
        }
        return {**values, **changes}

    def start(self, *command: str, **changes: Any) -> uuid.UUID:
        """Start an attempt; returns when it is accepted."""
        spec = self.spec(*command, **changes)
        result = self.op("attempt_start", **spec)
        assert result.ok, result.error
        return uuid.UUID(spec["attempt_id"])

    def running(self, attempt: uuid.UUID, timeout_s: float = 30) -> Status:
        """Wait until it runs."""
        self.hub.wait(lambda: {"running", *ENDS} & set(self.hub.states(attempt)), timeout_s)
        found = [status for status in self.hub.statuses[attempt].values() if status.state == "running"]
        assert found, self.hub.last(attempt)
        return found[0]

    def ended(self, attempt: uuid.UUID, timeout_s: float = 60) -> Status:
        """Wait for its end and all of its bytes."""
        self.hub.wait(lambda: set(ENDS) & set(self.hub.states(attempt)), timeout_s)
        last = self.hub.last(attempt)
        assert last is not None
        assert last.state in ENDS
        for number, stream in last.data["streams"].items():
            self._all_bytes(attempt, int(number), stream["length"], timeout_s)
        return last

    def log(self, attempt: uuid.UUID) -> bytes:
        """The log that arrived."""
        return bytes(self.hub.streams[attempt, 0])

    def check_hash(self, attempt: uuid.UUID, end: Status, stream: int = 0) -> None:
        """The bytes here are the node's."""
        told = end.data["streams"][str(stream)]
        held = self.hub.streams[attempt, stream]
        assert len(held) == told["length"]
        assert hashlib.sha256(held).hexdigest() == told["sha256"]

    def sh(self, script: str, timeout_s: float = 60) -> str:
        """A root shell on the node; asserts success."""
        result = self.transport.exec(script, timeout_s=timeout_s)
        assert result.rc == 0, (script, result)
        return result.stdout.decode(errors="replace")

    def journal(self, attempt: uuid.UUID, event: str) -> list[dict[str, Any]]:
        """The node's own record of one kind of event."""
        lines = [json.loads(line) for line in self.sh(f"cat {self.home}/record/journal").splitlines() if line]
        return [line for line in lines if line["attempt"] == str(attempt) and line["event"] == event]

    @property
    def linked(self) -> bool:
        """True while the link runs."""
        return self._alive()

    def daemon_pid(self) -> int:
        """The agent's process on the node; a child that it is just making has its words for a moment too."""
        pids: list[int] = []
        for _ in range(50):
            text = self.sh(f"pgrep -f 'pyz --home {self.home} daemon$'")
            pids = [int(word) for word in text.split()]
            if len(pids) == 1:
                break
        assert len(pids) == 1, pids
        return pids[0]

    def kill_agent(self) -> None:
        """SIGKILL, and wait until the link notices."""
        self.sh(f"kill -9 {self.daemon_pid()}")
        self.hub.wait(lambda: not self.linked)

    def until(self, condition: Callable[[], bool], timeout_s: float = 30, what: str = "condition") -> None:
        """Poll a condition of the node."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not within {timeout_s} s"
            time.sleep(0.1)

    def try_exec(self, script: str) -> str:
        """A command whose failure is an answer too."""
        try:
            return self.transport.exec(script, timeout_s=20).stdout.decode(errors="replace")
        except SshError as error:
            return str(error)

    def _all_bytes(self, attempt: uuid.UUID, stream: int, length: int, timeout_s: float) -> None:
        self.hub.wait(lambda: len(self.hub.streams[attempt, stream]) >= length, timeout_s)

    def _reconnect(self) -> bool:
        try:
            self.transport = self.connect()
        except SshError:
            return False
        return True

    def _alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()
