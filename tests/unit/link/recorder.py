"""A hub that keeps everything in memory."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from uuid import UUID

from workers.link import Alive, Hello, Result, Samples, Status


class Recorder:
    """Idempotent like the real hub: by sequence number, operation id and offset; survives many links."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.hellos: list[Hello] = []
        self.results: dict[str, Result] = {}
        self.statuses: dict[UUID, dict[int, Status]] = defaultdict(dict)
        self.streams: dict[tuple[UUID, int], bytearray] = defaultdict(bytearray)
        self.samples: list[Samples] = []
        self.alive: list[Alive] = []
        self.closed: list[str] = []
        self.gaps = 0
        self.accept_bytes = True

    def on_hello(self, hello: Hello) -> Mapping[str, Mapping[int, int]]:
        self._note(lambda: self.hellos.append(hello))
        offsets: dict[str, dict[int, int]] = defaultdict(dict)
        for (attempt, stream), data in self.streams.items():
            offsets[str(attempt)][stream] = len(data)
        return offsets

    def on_result(self, result: Result) -> bool:
        self._note(lambda: self.results.setdefault(result.id, result))
        return True

    def on_status(self, status: Status) -> bool:
        self._note(lambda: self.statuses[status.attempt_id].setdefault(status.seq, status))
        return True

    def on_bytes(self, attempt_id: UUID, stream: int, offset: int, data: bytes) -> int | None:
        held = self.streams[attempt_id, stream]
        if offset > len(held):
            self.gaps += 1
            raise ValueError(f"gap: {len(held)} bytes held of stream {stream} of {attempt_id}, {offset} came")
        with self.changed:
            held += data[len(held) - offset :]
            self.changed.notify_all()
        return len(held) if self.accept_bytes else None

    def on_samples(self, samples: Samples) -> None:
        self._note(lambda: self.samples.append(samples))

    def on_alive(self, alive: Alive) -> None:
        self._note(lambda: self.alive.append(alive))

    def on_closed(self, reason: str) -> None:
        self._note(lambda: self.closed.append(reason))

    def wait(self, condition: Callable[[], object], timeout_s: float = 30) -> None:
        """Wait until a condition on what was heard holds; fails at the deadline."""
        deadline = time.monotonic() + timeout_s
        with self.changed:
            while not condition():
                left = deadline - time.monotonic()
                assert left > 0, f"not within {timeout_s} s; {self.describe()}"
                self.changed.wait(min(left, 0.5))

    def states(self, attempt: UUID) -> list[str]:
        """The states reported so far, in order, without progress."""
        return [status.state for _, status in sorted(self.statuses[attempt].items()) if status.state != "pulling"]

    def last(self, attempt: UUID) -> Status | None:
        """The newest status."""
        known = self.statuses[attempt]
        return known[max(known)] if known else None

    def describe(self) -> str:
        """For messages of failed tests."""
        states = {str(attempt)[:8]: self.states(attempt) for attempt in self.statuses}
        return f"states {states}, {len(self.results)} results, closed {self.closed}"

    def _note(self, act: Callable[[], object]) -> None:
        with self.changed:
            act()
            self.changed.notify_all()
