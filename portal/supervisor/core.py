"""The supervisor: starts processes in order, keeps them alive, stops them in reverse order."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from portal.embedded.locks import FileLock
from portal.env import Env, load, make_dir
from portal.supervisor import orphans
from portal.supervisor.control import ControlServer
from portal.supervisor.logfile import tail
from portal.supervisor.runner import SETTLED, Runner, Surroundings
from portal.supervisor.spec import Backoff, ProcessSpec, Report, State, SupervisorError

# Not for children: they would compile every module again at each start.
UNWANTED = ("PYTHONDONTWRITEBYTECODE",)


class Supervisor:
    """Runs a table of processes on one data folder; use `with` or call `stop()`.

    `changed` is called (from the processes' threads) with a Report just before each change of state shows; the
    output of the processes named in `echo` is also printed.
    """

    def __init__(
        self,
        env: Env,
        processes: Sequence[ProcessSpec],
        *,
        backoff: Backoff | None = None,
        changed: Callable[[Report], None] = lambda _report: None,
        echo: Collection[str] = (),
    ) -> None:
        self.env = env
        self._specs = list(processes)
        self._backoff = backoff or Backoff()
        self._changed = changed
        self._echo = frozenset(echo)
        self._runners: dict[str, Runner] = {}
        self._locks: list[FileLock] = []
        self._control: ControlServer | None = None
        self._asked_to_stop = threading.Event()
        self._stop_once = threading.Lock()

    def __enter__(self) -> Supervisor:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start all processes, each after the one before it is ready.

        Raises SupervisorError (with the end of the log of the process that failed) after stopping what had started.
        """
        self.env.make_data_dir()
        make_dir(self.env.logs_dir, 0o700)
        locks_dir = self.env.data_dir / "locks"
        make_dir(locks_dir, 0o700)
        self._locks.append(orphans.supervisor_lock(locks_dir, self.env.data_dir))
        try:
            self._start_all(orphans.children_lock(locks_dir))
        except BaseException:
            self.stop()
            raise

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until somebody asks for the stop (or the time is over); say whether it was asked for."""
        return self._asked_to_stop.wait(seconds)

    def request_stop(self) -> None:
        """Make `wait()` return; safe in signal handlers."""
        self._asked_to_stop.set()

    def stop(self) -> None:
        """Stop all processes in reverse order; each within its grace time and a SIGKILL."""
        self._asked_to_stop.set()
        with self._stop_once:
            for runner in reversed(self._runners.values()):
                runner.stop()
                runner.close()
            self._runners = {}
            if self._control is not None:
                self._control.close()
                self._control = None
            while self._locks:
                self._locks.pop().release()

    def reports(self) -> list[Report]:
        """Return how each process stands, in order."""
        return [runner.report() for runner in list(self._runners.values())]

    def report(self, name: str) -> Report:
        """Return how one process stands."""
        return self._runner(name).report()

    def restart(self, name: str) -> None:
        """Stop one process in order and start it again."""
        self._runner(name).restart()

    def kill(self, name: str, number: int = signal.SIGKILL) -> bool:
        """Send a signal to one process; False when it does not run at the moment."""
        return self._runner(name).send(number)

    def wait_for(self, name: str, wanted: Callable[[Report], bool], seconds: float) -> bool:
        """Wait at most that long until the report of one process satisfies the condition."""
        return self._runner(name).wait_for(wanted, seconds)

    def wait_ready(self, name: str, seconds: float, *, restarts: int = 0) -> bool:
        """Wait until a process is ready after at least so many restarts."""
        return self.wait_for(name, lambda row: row.state == State.READY and row.restarts >= restarts, seconds)

    def _start_all(self, carried: FileLock) -> None:
        self._locks.append(carried)
        around = Surroundings(
            environ=_environ(self.env),
            cwd=self.env.repo_dir,
            logs=self.env.logs_dir,
            carried_lock=carried.descriptor,
            backoff=self._backoff,
            changed=self._changed,
            output=self._print,
        )
        self._runners = {spec.name: Runner(spec, around) for spec in self._specs}
        self._control = ControlServer(self, self.env)
        pending: list[Runner] = []
        for runner in list(self._runners.values()):
            if not runner.spec.alongside:
                self._await_all(pending)
            runner.start()
            pending.append(runner)
            if runner.spec.oneshot:
                self._await_all(pending)
        self._await_all(pending)

    def _await_all(self, pending: list[Runner]) -> None:
        while pending:
            self._await(pending.pop(0))

    def _await(self, runner: Runner) -> None:
        """Wait for one process at the first start, when its failing is the operator's to see."""
        spec = runner.spec
        deadline = time.monotonic() + spec.start_seconds
        while not self._asked_to_stop.is_set():
            given_up = time.monotonic() >= deadline
            if runner.wait_for(lambda row: row.state in SETTLED, 0.0 if given_up else 0.2):
                break
            if given_up:
                raise self._failure(runner, f"was not ready within {spec.start_seconds:.0f} s")
        if self._asked_to_stop.is_set():
            raise SupervisorError("Stopped while starting.")
        if runner.report().state == State.FAILED:
            raise self._failure(runner, f"failed ({runner.report().last_exit})")

    def _failure(self, runner: Runner, what: str) -> SupervisorError:
        end = "\n".join(f"  {line}" for line in tail(runner.log_path, 20))
        return SupervisorError(f"{runner.spec.name} {what}. End of {runner.log_path}:\n{end}")

    def _runner(self, name: str) -> Runner:
        try:
            return self._runners[name]
        except KeyError:
            raise SupervisorError(f"No process {name!r}; there are: {', '.join(self._runners) or 'none'}.") from None

    def _print(self, name: str, data: bytes) -> None:
        if name in self._echo:
            for line in filter(None, data.decode("utf-8", "replace").splitlines()):
                print(f"{name} | {line}", file=sys.stderr, flush=True)


def _environ(env: Env) -> Mapping[str, str]:
    """Return the children's environment; embedded servers' passwords are not in it, they read them from files."""
    ours = {
        "PYTHONUNBUFFERED": "1",
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "BERTH_DATA_DIR": str(env.data_dir),
        "BERTH_HTTP_HOST": env.http_host,
        "BERTH_HTTP_PORT": str(env.http_port),
        "BERTH_PUBLIC_URL": env.public_url,
        "BERTH_SMTP_HOST": env.smtp_host,
        "BERTH_SMTP_PORT": str(env.smtp_port),
    }
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    environ = {**kept, **ours}
    # Addresses with passwords are handed on only where the children would not find the same ones by themselves.
    seen = load(environ)
    if seen.database_url != env.database_url:
        environ["DATABASE_URL"] = env.database_url
    if seen.redis_url != env.redis_url:
        environ["REDIS_URL"] = env.redis_url
    return environ
