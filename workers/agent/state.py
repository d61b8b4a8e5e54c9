"""The persistent state of one attempt and its numbered statuses."""

from __future__ import annotations

import os
import threading
from typing import Any, Callable, Dict, List, Optional

from workers.agent import clock
from workers.agent.files import read_json, write_json
from workers.agent.process import ProcessId

ENDS = ("exited", "failed", "cancelled", "lost")


class AttemptState:
    """Every change is on disk before anyone hears of it; thread-safe."""

    def __init__(self, folder: str, announce: Callable[[Dict[str, Any]], None]) -> None:
        self._attempt = os.path.basename(folder)
        self._path = os.path.join(folder, "state.json")
        self._announce = announce
        self._lock = threading.RLock()
        found = read_json(self._path)
        self._values: Dict[str, Any] = found if isinstance(found, dict) else {}

    def __getitem__(self, name: str) -> Any:
        return self._values.get(name)

    @property
    def ended(self) -> bool:
        """True when one of the ends was reported."""
        return self["state"] in ENDS

    @property
    def acknowledged(self) -> bool:
        """True when the portal holds every status durably."""
        return not self["pending"]

    def pending(self) -> List[Dict[str, Any]]:
        """Statuses that the portal has not acknowledged."""
        with self._lock:
            return list(self["pending"] or [])

    def update(self, *, durable: bool = False, **values: Any) -> None:
        """Change members and save."""
        with self._lock:
            self._values.update(values)
            self._save(durable)

    def report(self, state: str, *, durable: bool = True, data: Optional[Dict[str, Any]] = None, **values: Any) -> None:
        """Enter a state: save it with its status and announce the status; `values` are members to change with it."""
        with self._lock:
            now = clock.now()
            seq = (self["seq"] or 0) + 1
            status = {"type": "status", "attempt": self._attempt, "seq": seq, "state": state}
            status.update(at_mono_ns=now["mono_ns"], at_utc_ns=now["utc_ns"], boot_id=now["boot_id"])
            status.update(data or {})
            # Progress replaces progress: a long pull must not grow the record.
            pending = [old for old in self.pending() if not (state == "pulling" == old["state"])]
            self._values.update(values, state=state, seq=seq, pending=[*pending, status])
            self._save(durable)
        self._announce(status)

    def acknowledge(self, seq: int) -> None:
        """The portal has the statuses up to `seq`."""
        with self._lock:
            left = [status for status in self.pending() if status["seq"] > seq]
            if len(left) != len(self.pending()):
                self.update(pending=left)

    def process(self, name: str) -> Optional[ProcessId]:
        """A remembered process."""
        value = self[name]
        return ProcessId(*value) if value else None

    def _save(self, durable: bool) -> None:
        write_json(self._path, self._values, durable=durable)
