"""What passes between the hub and a node's agent, as plain values; docs/protocol.md says what each field means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID


@dataclass(frozen=True)
class Op:
    """One operation for the agent; the same id again gets the same answer."""

    id: str
    token: int
    kind: str
    args: Mapping[str, Any] = field(default_factory=dict)
    deadline_s: float = 30.0


@dataclass(frozen=True)
class Hello:
    """The agent's greeting, sent after each attach."""

    protocol: int
    version: str
    boot_id: str
    epoch: str
    mono_ns: int
    utc_ns: int
    inventory_hash: str | None
    attempts: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Result:
    """The answer to an Op; `error` is {code, message} when `ok` is False."""

    id: str
    token: int
    ok: bool
    error: Mapping[str, Any] | None
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Status:
    """One step in an attempt's life, numbered from 1 per attempt; `data` holds the fields of that state."""

    attempt_id: UUID
    seq: int
    state: str
    at_mono_ns: int
    at_utc_ns: int
    boot_id: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Samples:
    """One round of GPU readings, each a value or null with a reason in `errors`; `kernel` lines tell of sick GPUs."""

    mono_ns: int
    utc_ns: int
    boot_id: str
    gpus: tuple[Mapping[str, Any], ...]
    nvml_error: str | None
    kernel: tuple[str, ...] = ()


@dataclass(frozen=True)
class Alive:
    """The node's proof of life, once a second, after its heartbeat reached the disk."""

    mono_ns: int
    utc_ns: int
    boot_id: str


class LinkHandler(Protocol):
    """What the hub does with what a node says; called in the thread of AgentLink.run, one call at a time."""

    def on_hello(self, hello: Hello) -> Mapping[str, Mapping[int, int]]:
        """Return the offsets that are durable here: {attempt id: {stream: offset}}."""

    def on_result(self, result: Result) -> bool:
        """True when the result is durable; the agent then forgets it."""

    def on_status(self, status: Status) -> bool:
        """True when the status is durable; the agent then stops resending it."""

    def on_bytes(self, attempt_id: UUID, stream: int, offset: int, data: bytes) -> int | None:
        """Return the offset to acknowledge now, or None to do it later with AgentLink.ack."""

    def on_samples(self, samples: Samples) -> None: ...

    def on_alive(self, alive: Alive) -> None: ...

    def on_closed(self, reason: str) -> None:
        """Called once, last, with why the link ended."""
