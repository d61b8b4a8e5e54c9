"""Runs `berth` in this process against the portal in memory."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli import client, config, follow, live, main, shell
from tests.unit.cli.portal import ADA, FakePortal


@dataclass
class Outcome:
    """What one command line did."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.out.decode()

    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


Berth = Callable[..., Outcome]


@pytest.fixture
def portal() -> FakePortal:
    """A portal."""
    return FakePortal()


@pytest.fixture
def config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the sign-in is kept."""
    path = tmp_path / "config" / "berth" / "config.json"
    monkeypatch.setenv("BERTH_CONFIG", str(path))
    for name in ("BERTH_PROFILE", "BERTH_TENANT", "LANG", "LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    return path


@pytest.fixture
def berth(
    portal: FakePortal,
    config_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Berth:
    """Runs a command line without being signed in; waits are short and no socket is opened."""
    monkeypatch.setattr(shell, "make_transport", lambda: httpx.MockTransport(portal.handle))
    monkeypatch.setattr(live.Live, "_run", lambda self: None)
    monkeypatch.setattr(live, "POLL_S", 0.001)
    monkeypatch.setattr(client, "BACKOFF_S", (0.0,))
    monkeypatch.setattr(follow, "BACKOFF_S", (0.0,))

    def run(*arguments: str, stdin: str | io.StringIO = "") -> Outcome:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin) if isinstance(stdin, str) else stdin)
        capfdbinary.readouterr()
        code = main.run(arguments)
        out, err = capfdbinary.readouterr()
        return Outcome(code, out, err.decode())

    return run


@pytest.fixture
def signed_in(berth: Berth, portal: FakePortal, config_file: Path) -> Berth:
    """Runs a command line as Ada."""
    portal.token = 1
    profile = config.Profile(
        url="http://portal.test", email=ADA, tenant="lab", access="access-1", refresh="refresh-1", expires_at=2e10
    )
    config.ConfigStore(config_file).save("default", profile)
    return berth
