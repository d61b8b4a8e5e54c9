"""The runtime's commands for one attempt's container."""

from __future__ import annotations

import signal
import time
from typing import Any, Dict, NamedTuple, Optional

from workers.agent.podman import ENDED, Container, Podman, container_name, parse_inspect, secret_name, split_environment
from workers.agent.process import Command, Outcome, Running, Wake, run
from workers.agent.state import AttemptState

RUNTIME_TIMEOUT_S = 120.0
_SETTLE_S = 30.0


class ContainerCalls(NamedTuple):
    """Runs them with the attempt's folder for their output, each with a bound."""

    runtime: Podman
    attempt: str
    folder: str
    state: AttemptState
    wake: Wake

    def command(self, command: Command, name: str) -> Outcome:
        """Run a command that an agent after us may have to wait for."""
        running = Running(command, self.folder, name)
        if running.identity is not None:
            self.state.update(command=list(running.identity))
        deadline = time.monotonic() + RUNTIME_TIMEOUT_S
        while not running.wait(self.wake, max(0.0, deadline - time.monotonic())):
            if time.monotonic() >= deadline:
                running.stop()
                return Outcome(None, "", f"no answer from the container runtime within {RUNTIME_TIMEOUT_S:.0f} s")
        return running.outcome()

    def inspect(self) -> Optional[Container]:
        """The container as it is; None when there is none; raises ValueError."""
        return parse_inspect(self._run(self.runtime.inspect(self.attempt), "inspect"))

    def settled(self) -> Optional[Container]:
        """The ended container as the runtime knows it, which may take it a moment; None when it is gone."""
        deadline = time.monotonic() + _SETTLE_S
        while True:
            found = self.inspect()
            if found is None or found.status in ENDED:
                return found
            if time.monotonic() > deadline:
                return None
            self.wake.wait(0.05)

    def stop_signal(self) -> int:
        """The signal that the image wants for a stop."""
        try:
            found = self.inspect()
        except ValueError:
            found = None
        return signal_number(found.stop_signal if found is not None else "")

    def remove(self, spec: Dict[str, Any]) -> None:
        """Remove the container and its secrets, present or not; raises OSError when the runtime can't."""
        outcome = self._run(self.runtime.remove(self.attempt), "remove")
        if outcome.rc != 0 and "no such container" not in outcome.stderr.lower():
            raise OSError(f"{container_name(self.attempt)} can't be removed: {outcome.stderr.strip()[-300:]}")
        _, secret = split_environment(spec["env"])
        if secret:
            names = [secret_name(self.attempt, name) for name in secret]
            self._run(self.runtime.secret_remove(names), "remove")

    def _run(self, command: Command, name: str) -> Outcome:
        return run(command, self.folder, name, timeout_s=RUNTIME_TIMEOUT_S)


def signal_number(text: str) -> int:
    """A signal from an image's text (`15`, `TERM`, `SIGTERM`); TERM when it says nothing sensible."""
    if text.isdigit() and 0 < int(text) < 65:
        return int(text)
    name = text if text.startswith("SIG") else f"SIG{text}"
    return int(signal.Signals.__members__.get(name, signal.SIGTERM))


def signal_name(exit_code: int) -> Optional[str]:
    """The signal behind an exit code over 128, as shells read it."""
    try:
        return signal.Signals(exit_code - 128).name if exit_code > 128 else None
    except ValueError:
        return None
