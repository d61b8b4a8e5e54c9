"""One supervised process: a thread that starts it, stays with it and starts it again.

The thread that forks must live as long as the child, because PR_SET_PDEATHSIG is bound to it: hence one per process.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from portal.supervisor.logfile import RotatingLog
from portal.supervisor.orphans import die_with_parent
from portal.supervisor.spec import Backoff, ProcessSpec, Report, Started, State
from portal.supervisor.watch import READ_BYTES, Watch

KILL_SECONDS = 5.0
SETTLED = (State.READY, State.DONE, State.FAILED, State.STOPPED)


@dataclass(frozen=True)
class Surroundings:
    """What all processes of one supervisor share."""

    environ: Mapping[str, str]
    cwd: Path
    logs: Path
    carried_lock: int  # descriptor that children inherit, see orphans.py
    backoff: Backoff
    changed: Callable[[Report], None]
    output: Callable[[str, bytes], None]


class Runner:
    """Keeps one process alive until told to stop; public methods may be called from any thread."""

    def __init__(self, spec: ProcessSpec, around: Surroundings) -> None:
        self.spec = spec
        self.log_path = around.logs / f"{spec.name}.log"
        self.wake_fd, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._around = around
        self._condition = threading.Condition()
        self._state = State.WAITING
        self._child: subprocess.Popen[bytes] | None = None
        self._since = 0.0
        self._starts = 0
        self._last_exit = ""
        self._detail = ""
        self._stopping = False
        self._restart_asked = False
        self._thread = threading.Thread(target=self._run, name=f"berth-{spec.name}", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def wait_for(self, wanted: Callable[[Report], bool], seconds: float) -> bool:
        """Wait at most that long until the report satisfies the condition; say whether it does."""
        with self._condition:
            return self._condition.wait_for(lambda: wanted(self._report()), seconds)

    def report(self) -> Report:
        """Return how it stands."""
        with self._condition:
            return self._report()

    def restart(self) -> None:
        """Stop it in order and start it again at once."""
        with self._condition:
            self._restart_asked = True
        self._wake()

    def send(self, number: int) -> bool:
        """Send a signal to the process; False when it does not run."""
        with self._condition:
            if self._child is None or self._child.returncode is not None:
                return False
            os.kill(self._child.pid, number)
            return True

    def stop(self) -> None:
        """Stop it for good: its stop signal, its grace time, then SIGKILL."""
        with self._condition:
            self._stopping = True
        self._wake()
        if self._thread.ident is None:
            self.set_state(State.STOPPED)
        else:
            self._thread.join(self.spec.stop_seconds + KILL_SECONDS)

    def close(self) -> None:
        """Give back descriptors after the stop."""
        if not self._thread.is_alive():
            os.close(self.wake_fd)
            os.close(self._wake_write)

    def must_stop(self) -> bool:
        """Say whether the process shall end now."""
        return self._stopping or self._restart_asked

    def clear_wakes(self) -> None:
        """Forget the wake-ups seen."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake_fd, READ_BYTES)

    def set_state(self, state: State, detail: str = "") -> None:
        """Tell the supervisor of a new state, then let those who wait see it: so all see one order."""
        with self._condition:
            report = replace(self._report(), state=state.value, detail=detail)
        self._around.changed(report)
        with self._condition:
            self._state = state
            self._detail = detail
            self._condition.notify_all()

    def _run(self) -> None:
        log = RotatingLog(self.log_path)
        failures = 0
        try:
            while not self._stopping:
                ready_seconds = self._run_once(log)
                if self._is_over():
                    break
                if self._take_restart():
                    failures = 0
                    continue
                failures = 1 if ready_seconds >= self._around.backoff.healthy else failures + 1
                self._pause(self._around.backoff.pause(failures))
        finally:
            log.close()
            if self._state not in (State.DONE, State.FAILED):
                self.set_state(State.STOPPED)

    def _is_over(self) -> bool:
        return self._stopping or self._state in (State.DONE, State.FAILED)

    def _run_once(self, log: RotatingLog) -> float:
        """Start it and stay with it until it ends; return for how many seconds it was ready."""
        try:
            child = self._spawn(self.spec.started())
        except Exception as error:
            log.write(f"[berth] cannot start: {error}\n".encode())
            self._note_end(f"cannot start: {error}", succeeded=False)
            return 0.0
        watch = Watch(self.spec, child, self, lambda data: self._take_output(log, data))
        try:
            watch.until_end()
        finally:
            self._bury(child)
        watch.drain()
        code = child.returncode
        self._note_end(f"exit {code}" if code >= 0 else f"signal {signal.Signals(-code).name}", succeeded=code == 0)
        return 0.0 if watch.ready_at is None else time.monotonic() - watch.ready_at

    def _spawn(self, started: Started) -> subprocess.Popen[bytes]:
        options: dict[str, Any] = {"cwd": self._around.cwd, "env": {**self._around.environ, **self.spec.env}}
        pid = 0
        try:
            child = subprocess.Popen(
                started.argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent(self.spec.orphan_signal),  # noqa: PLW1509 - calls prctl only, see orphans.py
                pass_fds=(self._around.carried_lock, *started.pass_fds),
                **{**options, **started.popen},
            )
            pid = child.pid
        finally:
            started.after(pid)
        with self._condition:
            self._child = child
            self._since = time.monotonic()
            self._starts += 1
        self.set_state(State.STARTING)
        return child

    def _bury(self, child: subprocess.Popen[bytes]) -> None:
        """Reap the process and whatever else is left in its process group."""
        # It is not reaped yet, so the number of its group can't be another's.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        with self._condition:
            child.wait(KILL_SECONDS)

    def _take_output(self, log: RotatingLog, data: bytes) -> None:
        log.write(data)
        self._around.output(self.spec.name, data)

    def _note_end(self, how: str, *, succeeded: bool) -> None:
        with self._condition:
            self._last_exit = how
        if self.spec.oneshot and not self.must_stop():
            self.set_state(State.DONE if succeeded else State.FAILED, "" if succeeded else how)

    def _take_restart(self) -> bool:
        with self._condition:
            asked, self._restart_asked = self._restart_asked, False
            return asked

    def _pause(self, seconds: float) -> None:
        self.set_state(State.BACKOFF, f"{self._last_exit}; again in {seconds:.1f} s")
        with selectors.DefaultSelector() as selector:
            selector.register(self.wake_fd, selectors.EVENT_READ)
            selector.select(seconds)
        self.clear_wakes()
        self._take_restart()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"x")

    def _report(self) -> Report:
        child = self._child
        alive = child is not None and child.returncode is None
        return Report(
            name=self.spec.name,
            state=self._state.value,
            pid=child.pid if child is not None and alive else None,
            restarts=max(0, self._starts - 1),
            uptime_seconds=round(time.monotonic() - self._since, 1) if alive else None,
            last_exit=self._last_exit,
            detail=self._detail,
        )
