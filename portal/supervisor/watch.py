"""Stays with one running process: reads its output, judges its health, stops it when asked, until it ends."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Protocol

from portal.supervisor.spec import ProcessSpec, State

READ_BYTES = 65536
LONGEST_LINE = 8192  # of the output looked at for `ready_line`
STARTING_PROBE_SECONDS = 0.1
IDLE_SECONDS = 60.0


class Orders(Protocol):
    """What the watch asks and tells its runner."""

    wake_fd: int

    def must_stop(self) -> bool:
        """Say whether the process shall end now."""

    def clear_wakes(self) -> None:
        """Forget the wake-ups seen."""

    def set_state(self, state: State, detail: str = "") -> None:
        """Note a new state."""


class Watch:
    """One life of one process; `ready_at` is the monotonic time at which it became ready."""

    def __init__(
        self, spec: ProcessSpec, child: subprocess.Popen[bytes], orders: Orders, write: Callable[[bytes], None]
    ) -> None:
        self.ready_at: float | None = None
        self._spec = spec
        self._child = child
        self._orders = orders
        self._write = write
        self._output = child.stdout.fileno() if child.stdout else -1
        os.set_blocking(self._output, False)
        self._ready_line = re.compile(spec.ready_line) if spec.ready_line else None
        self._partial = ""
        self._started_at = time.monotonic()
        self._next_probe = self._started_at
        self._failures = 0
        self._kill_at: float | None = None

    def until_end(self) -> None:
        """Return when the process has ended (it is not reaped yet)."""
        process = os.pidfd_open(self._child.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(process, selectors.EVENT_READ)
                selector.register(self._output, selectors.EVENT_READ)
                selector.register(self._orders.wake_fd, selectors.EVENT_READ)
                while process not in (ready := self._turn(selector)):
                    if self._output in ready and not self._read():
                        selector.unregister(self._output)
        finally:
            os.close(process)

    def drain(self) -> None:
        """Read what is left of the output after the end."""
        while self._read():
            pass

    def _turn(self, selector: selectors.BaseSelector) -> set[int]:
        if self._orders.must_stop():
            self._stop()
        elif self._kill_at is None:
            self._judge()
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._signal(signal.SIGKILL)
        ready = {key.fd for key, _ in selector.select(self._patience())}
        if self._orders.wake_fd in ready:
            self._orders.clear_wakes()
        return ready

    def _patience(self) -> float:
        now = time.monotonic()
        if self._kill_at is not None:
            return max(0.0, self._kill_at - now) if now < self._kill_at else 1.0
        if self.ready_at is None:
            until = self._started_at + self._spec.start_seconds
            return max(0.0, min(until, self._next_probe if self._spec.probe else until) - now)
        return max(0.0, self._next_probe - now) if self._spec.probe else IDLE_SECONDS

    def _read(self) -> bool:
        """Move output to the log; False at its end or when there is none now."""
        try:
            data = os.read(self._output, READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._write(data)
            self._look_for_ready(data)
        return bool(data)

    def _look_for_ready(self, data: bytes) -> None:
        if self._ready_line is None or self.ready_at is not None:
            return
        *lines, self._partial = (self._partial + data.decode("utf-8", "replace")).split("\n")
        self._partial = self._partial[-LONGEST_LINE:]
        if any(self._ready_line.search(line) for line in lines):
            self._is_ready()

    def _judge(self) -> None:
        now = time.monotonic()
        if self.ready_at is None:
            if now >= self._started_at + self._spec.start_seconds:
                self._give_up(f"not ready within {self._spec.start_seconds:.0f} s")
            elif self._spec.probe is not None and now >= self._next_probe:
                self._first_probe()
            elif self._spec.probe is None and self._ready_line is None and not self._spec.oneshot:
                self._is_ready()
        elif self._spec.probe is not None and now >= self._next_probe:
            self._later_probe()

    def _first_probe(self) -> None:
        if self._probe() == "":
            self._is_ready()
        else:
            self._next_probe = time.monotonic() + STARTING_PROBE_SECONDS

    def _later_probe(self) -> None:
        problem = self._probe()
        self._failures = self._failures + 1 if problem else 0
        self._next_probe = time.monotonic() + self._spec.probe_every
        if self._failures >= self._spec.probe_failures:
            self._give_up(f"health check failed {self._failures} times: {problem}")

    def _probe(self) -> str:
        """Return the problem, or an empty text."""
        if self._spec.probe is None:
            return ""
        try:
            self._spec.probe()
        except Exception as error:
            return (str(error) or type(error).__name__).splitlines()[0]
        return ""

    def _is_ready(self) -> None:
        self.ready_at = time.monotonic()
        self._next_probe = self.ready_at + self._spec.probe_every
        self._orders.set_state(State.READY)

    def _give_up(self, why: str) -> None:
        self._write(f"[berth] {why}: stopping it\n".encode())
        self._orders.set_state(State.UNHEALTHY, why)
        self._stop()

    def _stop(self) -> None:
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._spec.stop_seconds
            self._signal(self._spec.stop_signal)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(self._child.pid, number)
            else:
                os.kill(self._child.pid, number)
