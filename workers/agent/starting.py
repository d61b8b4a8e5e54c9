"""From a spec on disk to a started container, once, whatever is killed on the way."""

from __future__ import annotations

import os
import shutil
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from workers.agent.causes import Fault, explain, image_absent, name_taken
from workers.agent.container import RUNTIME_TIMEOUT_S, ContainerCalls
from workers.agent.failpoints import Failpoints
from workers.agent.files import read_text, write_atomic
from workers.agent.inputs import place_inputs
from workers.agent.paths import Paths
from workers.agent.podman import (
    Container,
    Mounts,
    Podman,
    env_file,
    secret_name,
    split_environment,
)
from workers.agent.process import Command, Outcome, Running, Wake
from workers.agent.record import Record
from workers.agent.state import AttemptState

_PULL_TIMEOUT_S = 3600.0
_CONMON_PATH = "/usr/bin:/usr/sbin:/usr/local/bin:/usr/libexec/podman:/usr/lib/podman/bin"


class Node(NamedTuple):
    """What attempts share."""

    paths: Paths
    record: Record
    runtime: Podman
    failpoints: Failpoints
    announce: Callable[[Dict[str, Any]], None]
    bytes_ready: Callable[[], None]


class StartError(Exception):
    """The container can't be started."""

    def __init__(self, stage: str, fault: Fault) -> None:
        super().__init__(fault.message)
        self.stage = stage
        self.fault = fault


class StartCancelledError(Exception):
    """A stop came first, and nothing of a container is left."""


class Start:
    """One attempt's way to a started container."""

    def __init__(
        self, node: Node, attempt: str, folder: str, spec: Dict[str, Any], state: AttemptState, wake: Wake
    ) -> None:
        self._node = node
        self._attempt = attempt
        self._folder = folder
        self._spec = spec
        self._state = state
        self._wake = wake
        self._calls = ContainerCalls(node.runtime, attempt, folder, state, wake)
        self.mounts = Mounts(*(os.path.join(folder, name) for name in ("in", "out", "env", "pid", "id", "conmon")))

    def prepare(self, fifo: str) -> None:
        """Lay out the attempt's folders and files; raises StartError."""
        for path in (self.mounts.inputs, self.mounts.outputs):
            os.makedirs(path, mode=0o755, exist_ok=True)
        os.chmod(self.mounts.outputs, 0o777)  # noqa: S103 - an image may run as any user  # nosec B103
        fault = place_inputs(self._node.paths.files, self._spec["files"], self.mounts.inputs)
        if fault is not None:
            raise StartError("files", fault)
        plain, _ = split_environment(self._spec["env"])
        write_atomic(self.mounts.env_file, env_file(plain))
        write_atomic(self.mounts.conmon, conmon_wrapper(fifo).encode(), mode=0o700)

    def start(self, *, resumed: bool) -> Optional[Container]:
        """Start the container; returns what the runtime says of it if it had to be asked anyway.

        Raises StartError and StartCancelledError.
        """
        self._node.failpoints.reach("before_create", self._attempt)
        self._cancel_if_stopped()
        found = self._settle_earlier_start() if resumed else None
        return found if found is not None else self._create_and_start()

    def _create_and_start(self) -> Optional[Container]:
        secrets = self._create_secrets()
        parked = self._node.failpoints.armed("after_create", self._attempt)
        make = self._node.runtime.create if parked else self._node.runtime.start
        command = make(self._spec, self.mounts, secrets, self._node.record.epoch)
        outcome = self._make(command)
        if image_absent(outcome):
            self._pull()
            outcome = self._make(command)
        if name_taken(outcome):
            return self._settle_earlier_start()
        if outcome.rc != 0:
            self._give_up(outcome)
        container = read_text(self.mounts.id_file).strip()
        self._node.record.journal("create", self._attempt, container)
        if parked:
            self._state.report("created", data={"container_id": container}, container_id=container)
            self._node.failpoints.reach("after_create", self._attempt)
            return self._start_created()
        self._state.update(container_id=container)
        return None

    def _make(self, command: Command) -> Outcome:
        if os.path.exists(self.mounts.id_file):
            os.unlink(self.mounts.id_file)  # podman refuses to write over it
        return self._calls.command(command, "start")

    def _settle_earlier_start(self) -> Optional[Container]:
        """What became of a start that a killed agent left behind: a started container, or None."""
        earlier = self._state.process("command")
        if earlier is not None:
            deadline = time.monotonic() + RUNTIME_TIMEOUT_S
            # A stop wakes the wait, but changes nothing: what podman is at must be known first.
            while not earlier.wait(self._wake, deadline - time.monotonic()) and time.monotonic() < deadline:
                continue
        found = self._calls.inspect()
        if found is None:
            return None
        self._node.record.journal("create", self._attempt, found.id)
        self._state.update(container_id=found.id)
        if found.status in ("created", "configured", "initialized"):
            return self._start_created()
        return found

    def _start_created(self) -> Optional[Container]:
        self._cancel_if_stopped()
        outcome = self._calls.command(self._node.runtime.start_created(self._attempt, self.mounts.conmon), "start")
        if outcome.rc != 0:
            self._give_up(outcome)
        return self._calls.inspect()

    def _pull(self) -> None:
        image = self._spec["image"]
        if image.startswith("localhost/"):
            raise StartError("pull", Fault("user", "image_not_found", f"{image} is not on this node"))
        self._report_layers(0)
        pulling = Running(self._node.runtime.pull(image), self._folder, "pull")
        deadline, done = time.monotonic() + _PULL_TIMEOUT_S, 0
        while not pulling.wait(self._wake, 1.0):
            if self._state["stop"] is not None or time.monotonic() > deadline:
                pulling.stop()
                break
            layers = pulling.errors_so_far.count("Copying blob")
            if layers != done:
                done = layers
                self._report_layers(done)
        self._cancel_if_stopped()
        outcome = pulling.outcome()
        if outcome.rc != 0:
            raise StartError("pull", explain(outcome, "pull_failed"))

    def _report_layers(self, done: int) -> None:
        self._state.report("pulling", durable=False, data={"done": done, "total": None})

    def _create_secrets(self) -> List[str]:
        _, secret = split_environment(self._spec["env"])
        for name, value in secret.items():
            outcome = self._calls.command(
                self._node.runtime.secret_create(secret_name(self._attempt, name), value), "secret"
            )
            if outcome.rc != 0 and "in use" not in outcome.stderr:
                raise StartError("create", explain(outcome, "secret_failed"))
        return list(secret)

    def _give_up(self, outcome: Outcome) -> None:
        self._calls.remove(self._spec)
        raise StartError("start", explain(outcome, "start_failed"))

    def _cancel_if_stopped(self) -> None:
        if self._state["stop"] is not None:
            self._calls.remove(self._spec)
            raise StartCancelledError


def conmon_wrapper(fifo: str) -> str:
    """Give the FIFO to conmon, not to podman: podman's own words must not get into the container's log."""
    run_it = f'exec {shutil.which("conmon", path=_CONMON_PATH) or "conmon"} "$@"'
    return f'#!/bin/sh\ncase "$1" in --version) {run_it};; esac\n{run_it} </dev/null 1<>{fifo} 2>&1\n'
