"""The portal's end against a scripted agent: what arrives, what is answered, how it ends."""

from __future__ import annotations

import queue
import threading
import uuid
from collections.abc import Iterator
from typing import Any, cast

import pytest

from tests.unit.link.recorder import Recorder
from workers.agent import wire
from workers.link import AgentLink, LinkClosedError, Op
from workers.link.client import WINDOW_BYTES
from workers.ssh import HostUnreachable, SshTimeout, Transport

ATTEMPT = uuid.UUID(int=5)
CLOCKS = {"mono_ns": 1, "utc_ns": 2, "boot_id": "b"}
HELLO = {"type": "hello", "protocol": 1, "version": "v", "epoch": "e", "inventory_hash": None, "attempts": [], **CLOCKS}


class Script:
    """A stream whose other end is the test."""

    def __init__(self) -> None:
        self.up: queue.Queue[bytes] = queue.Queue()
        self.sent = b""
        self.last_words = "podman: what?"
        self.closed = False
        self.said = threading.Condition()

    def send(self, data: bytes) -> None:
        if self.closed:
            raise HostUnreachable("closed")
        with self.said:
            self.sent += data
            self.said.notify_all()

    def recv(self, max_bytes: int) -> bytes:
        if self.closed:
            return b""
        try:
            return self.up.get(timeout=0.05)
        except queue.Empty:
            raise SshTimeout("nothing") from None

    def set_deadline(self, seconds: float | None) -> None: ...

    def close(self) -> None:
        self.closed = True

    def messages(self) -> list[wire.Message]:
        return [cast("wire.Message", frame) for frame in wire.Decoder().feed(self.sent)]

    def wait(self, kind: str) -> wire.Message:
        with self.said:
            assert self.said.wait_for(lambda: any(m["type"] == kind for m in self.messages()), 20), self.messages()
        return next(m for m in self.messages() if m["type"] == kind)


class Agent:
    """One link being served, its hub and its script."""

    def __init__(self, **options: Any) -> None:
        self.stream = Script()
        self.hub = Recorder()
        self.nonce = ""
        self.link = AgentLink(
            cast("Transport", self), version="v", link_token=7, handler=self.hub, command=self._command, **options
        )
        self.thread = threading.Thread(target=self.link.run)
        self.started = threading.Event()
        self.thread.start()
        assert self.started.wait(20)

    def _command(self, version: str, nonce: str) -> str:
        self.nonce = nonce
        return version

    def open_stream(self, command: str, *, timeout_s: float = 10) -> Script:
        self.started.set()
        return self.stream

    def say(self, *frames: wire.Frame) -> None:
        for frame in frames:
            self.stream.up.put(
                wire.bytes_frame(*frame) if isinstance(frame, wire.ByteFrame) else wire.json_frame(frame)
            )

    def greet(self) -> None:
        self.stream.up.put(b"Welcome!\n" + wire.marker(self.nonce, "v"))
        assert self.stream.wait("hello")["link_token"] == 7
        self.say(HELLO)
        self.stream.wait("credit")

    def end(self) -> str:
        self.thread.join(20)
        assert not self.thread.is_alive()
        assert self.stream.closed
        assert len(self.hub.closed) == 1
        return self.hub.closed[0]


@pytest.fixture
def agent() -> Iterator[Agent]:
    one = Agent()
    yield one
    one.link.close()
    one.thread.join(20)


def test_greeting_tells_what_is_held_and_grants_the_window(agent: Agent) -> None:
    agent.hub.streams[ATTEMPT, 0] += b"12345"
    agent.greet()
    assert agent.stream.wait("acked")["offsets"] == {str(ATTEMPT): {"0": 5}}
    assert agent.stream.wait("credit")["bytes"] == WINDOW_BYTES
    assert agent.hub.hellos[0].boot_id == "b"


def test_noise_cut_anywhere_before_the_marker(agent: Agent) -> None:
    data = b"\xff\0motd BERTH \n" * 100 + wire.marker(agent.nonce, "v")
    for at in range(0, len(data), 7):
        agent.stream.up.put(data[at : at + 7])
    agent.stream.wait("hello")


def test_results_statuses_and_bytes_are_acknowledged(agent: Agent) -> None:
    agent.greet()
    agent.say({"type": "result", "id": "o", "token": 3, "ok": True, "error": None, "data": {"x": 1}})
    assert agent.stream.wait("op_ack")["id"] == "o"
    times = {"at_mono_ns": 1, "at_utc_ns": 2, "boot_id": "b"}
    agent.say({"type": "status", "attempt": str(ATTEMPT), "seq": 4, "state": "running", "container_id": "c", **times})
    assert agent.stream.wait("status_ack") == {"type": "status_ack", "attempt": str(ATTEMPT), "seq": 4}
    agent.say(wire.ByteFrame(ATTEMPT, 0, 0, b"log"))
    assert agent.stream.wait("ack") == {"type": "ack", "attempt": str(ATTEMPT), "stream": 0, "offset": 3}
    assert agent.hub.results["o"].data == {"x": 1}
    assert agent.hub.statuses[ATTEMPT][4].data == {"container_id": "c"}


def test_credit_follows_consumption(agent: Agent) -> None:
    agent.greet()
    for number in range(9):
        agent.say(wire.ByteFrame(ATTEMPT, 0, number * wire.DATA_CHUNK, bytes(wire.DATA_CHUNK)))
    agent.hub.wait(lambda: len(agent.hub.streams[ATTEMPT, 0]) == 9 * wire.DATA_CHUNK)
    agent.stream.wait("ack")
    granted = [m["bytes"] for m in agent.stream.messages() if m["type"] == "credit"]
    assert granted == [WINDOW_BYTES, 8 * wire.DATA_CHUNK]


def test_operations_and_later_acknowledgements(agent: Agent) -> None:
    with pytest.raises(LinkClosedError):
        agent.link.send_op(Op("early", 1, "noop"))
    agent.greet()
    agent.link.send_op(Op("o", 2, "noop", {"a": 1}, 5.0))
    sent = agent.stream.wait("op")
    assert (sent["id"], sent["token"], sent["kind"], sent["args"], sent["deadline_s"]) == (
        "o",
        2,
        "noop",
        {"a": 1},
        5.0,
    )
    agent.link.ack(ATTEMPT, 1, 9)
    assert agent.stream.wait("ack")["offset"] == 9
    agent.link.close()
    assert agent.end() == "closed by the portal"
    agent.link.ack(ATTEMPT, 1, 10)
    agent.link.ack_status(ATTEMPT, 1)
    with pytest.raises(LinkClosedError):
        agent.link.send_op(Op("late", 1, "noop"))


@pytest.mark.parametrize(
    "message",
    [
        {"type": "status", "attempt": "x", "seq": 1, "state": "s", "at_mono_ns": 1, "at_utc_ns": 1, "boot_id": "b"},
        {"type": "result", "id": 1},
        {"type": "alive"},
        {"type": "hello", "protocol": 1},
        {**HELLO, "attempts": [1]},
        {"type": "samples", "gpus": {}},
    ],
)
def test_bad_messages_close_the_link_by_name(agent: Agent, message: wire.Message) -> None:
    agent.greet()
    agent.say(message)
    assert agent.end().startswith("frame_field")


def test_garbage_closes_the_link_by_name(agent: Agent) -> None:
    agent.greet()
    agent.stream.up.put(b"\xff" * 50)
    assert agent.end().startswith("frame_too_long")


def test_data_before_the_hello(agent: Agent) -> None:
    agent.stream.up.put(wire.marker(agent.nonce, "v"))
    agent.say(wire.ByteFrame(ATTEMPT, 0, 0, b"x"))
    assert agent.end().startswith("frame_type")


def test_another_protocol(agent: Agent) -> None:
    agent.stream.up.put(wire.marker(agent.nonce, "v"))
    agent.say({**HELLO, "protocol": 2})
    assert agent.end().startswith("protocol")


def test_unknown_messages_are_ignored(agent: Agent) -> None:
    agent.greet()
    agent.say({"type": "horoscope"}, {"type": "alive", "more": 1, **CLOCKS})
    agent.hub.wait(lambda: agent.hub.alive)
    assert not agent.hub.closed


def test_the_agents_own_error(agent: Agent) -> None:
    agent.greet()
    agent.say({"type": "error", "code": "superseded", "message": "a newer link"})
    assert agent.end() == "superseded: said by the agent: a newer link"


def test_an_agent_that_does_not_start(agent: Agent) -> None:
    agent.stream.up.put(b"sh: python3: not found\n")
    agent.stream.up.put(b"")
    assert agent.end() == "no_agent: the agent did not start: podman: what?"


def test_a_failing_handler_closes_the_link_and_nothing_else(agent: Agent) -> None:
    agent.greet()
    agent.say(wire.ByteFrame(ATTEMPT, 0, 99, b"gap"))
    assert agent.end() == "handler_failed: ValueError"


def test_silence() -> None:
    quiet = Agent(dead_after_s=0.3, ping_interval_s=0.05)
    quiet.greet()
    assert quiet.end().startswith("silent")
    assert len([m for m in quiet.stream.messages() if m["type"] == "ping"]) >= 2
