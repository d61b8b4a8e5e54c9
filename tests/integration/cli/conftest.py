"""A real web process on this test's database, and `berth` as a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.core.cache import cache
from django.db import connection
from pytest_django import Settings

from portal.embedded.external import with_database_name
from tests.world import World, make_world

BOUND = 60.0


class Web:
    """The web process; it can be killed and started again on the same port."""

    def __init__(self, environ: dict[str, str], log: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._environ = {**environ, "BERTH_HTTP_PORT": str(self.port), "BERTH_PUBLIC_URL": self.url}
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it and waits until it answers."""
        argv = [sys.executable, "-m", "uvicorn", "portal.asgi:application", "--port", str(self.port)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(argv, env=self._environ, stdout=log, stderr=log)
        eventually(self._answers, f"the web process answers; its log:\n{self._log.read_text()[-2000:]}")

    def kill(self) -> None:
        """Ends it without warning."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=BOUND)
            self._process = None

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=5) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


class Running:
    """A `berth` that runs, with its output in files."""

    def __init__(self, argv: list[str], environ: dict[str, str], folder: Path) -> None:
        self._out, self._err = folder / f"out-{time.monotonic_ns()}", folder / f"err-{time.monotonic_ns()}"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    @property
    def out(self) -> bytes:
        """Standard output so far."""
        return self._out.read_bytes()

    @property
    def err(self) -> str:
        """Standard error so far."""
        return self._err.read_text()

    def prints(self, wanted: bytes) -> None:
        """Waits until all of this has been printed."""
        eventually(lambda: self.out == wanted or self.process.poll() is not None, f"prints {wanted[:40]!r}: {self.err}")
        assert self.out == wanted, self.err

    def says(self, wanted: str) -> None:
        """Waits until this stands in standard error."""
        eventually(lambda: wanted in self.err, f"says {wanted!r}")

    def interrupt(self) -> None:
        """Presses Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def ends(self) -> int:
        """Waits for its exit code."""
        return self.process.wait(timeout=BOUND)


class Cli:
    """Runs `berth` with its own configuration."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("BERTH_", "DJANGO_"))}
        self._environ = {**inherited, "BERTH_CONFIG": str(folder / "config.json")}

    def start(self, *arguments: str) -> Running:
        """Starts a command and leaves it running."""
        return Running([sys.executable, "-m", "cli", *arguments], self._environ, self._folder)

    def run(self, *arguments: str, stdin: str = "", code: int = 0) -> str:
        """Runs a command to its end and returns what it printed; asserts its exit code."""
        done = subprocess.run(
            [sys.executable, "-m", "cli", *arguments],
            env=self._environ, input=stdin, capture_output=True, text=True, errors="backslashreplace",
            timeout=BOUND, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


def eventually(condition: Callable[[], object], what: str) -> None:
    """Waits for a condition within a bound."""
    deadline = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < deadline, f"not within {BOUND:.0f} s: {what}"
        time.sleep(0.02)


@pytest.fixture
def world(transactional_db: None, settings: Settings) -> World:
    """Two tenants and five people, committed, with passwords that the web process can check."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
    cache.clear()
    return make_world(jobs=100)


@pytest.fixture(scope="module")
def web(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A web process for all tests of a module: starting one takes seconds."""
    name = str(connection.settings_dict["NAME"])
    environ = {**os.environ, "DATABASE_URL": with_database_name(os.environ["DATABASE_URL"], name)}
    process = Web(environ, tmp_path_factory.mktemp("web") / "web.log")
    process.start()
    yield process
    process.kill()


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A `berth` without a sign-in."""
    return Cli(tmp_path)
