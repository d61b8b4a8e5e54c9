"""What the supervisor needs to know about a process."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class SupervisorError(Exception):
    """The supervisor or one of its processes could not start; the message says what to do."""


class State(StrEnum):
    """Where a process stands."""

    WAITING = "waiting"  # not started yet
    STARTING = "starting"  # runs, not ready yet
    READY = "ready"
    UNHEALTHY = "unhealthy"  # was ready, its health check fails
    BACKOFF = "backoff"  # ended unasked, starts again after a pause
    DONE = "done"  # a one-shot that succeeded
    FAILED = "failed"  # a one-shot that did not
    STOPPED = "stopped"


@dataclass(frozen=True)
class Started:
    """How to start a process this time: made new for each start, because servers bring a lock along."""

    argv: list[str]
    popen: dict[str, Any] = field(default_factory=dict)
    pass_fds: tuple[int, ...] = ()
    after: Callable[[int], None] = lambda _pid: None  # called with the pid, also when the start failed (pid 0)


@dataclass(frozen=True)
class ProcessSpec:
    """One row of the process table; times in seconds."""

    name: str
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    oneshot: bool = False
    alongside: bool = False  # at the first start it does not wait for the one before it, a one-shot excepted
    launch: Callable[[], Started] | None = None  # instead of argv
    ready_line: str = ""  # a regular expression: the process is ready when a line of its output matches
    probe: Callable[[], None] | None = None  # raises while unhealthy; must bound its own time
    probe_every: float = 5.0
    probe_failures: int = 3  # so many in a row mean a restart
    start_seconds: float = 60.0
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    orphan_signal: signal.Signals = signal.SIGTERM  # what the kernel sends when the supervisor is killed

    def started(self) -> Started:
        """Return how to start it now."""
        return Started(list(self.argv)) if self.launch is None else self.launch()


@dataclass(frozen=True)
class Backoff:
    """Pauses between restarts: doubled from `first` to `most`, forgotten after `healthy` seconds of readiness."""

    first: float = 0.2
    most: float = 30.0
    healthy: float = 30.0

    def pause(self, failures: int) -> float:
        """Return the pause before the start that follows so many failures in a row (1 or more)."""
        return min(self.most, self.first * 2.0 ** min(failures - 1, 30))


@dataclass(frozen=True)
class Report:
    """A process as `berth-ctl ps` shows it."""

    name: str
    state: str
    pid: int | None
    restarts: int
    uptime_seconds: float | None
    last_exit: str
    detail: str
