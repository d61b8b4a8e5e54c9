"""The ladder of signals, and the agent's oldest Python."""

from __future__ import annotations

import ast
import signal
import time
from pathlib import Path
from typing import cast

import pytest

from workers.agent import kill
from workers.agent.kill import KillLadder
from workers.agent.process import ProcessId


class Stubborn:
    """A process that only takes notes."""

    pid = 0

    def __init__(self) -> None:
        self.got: list[int] = []

    def signal(self, number: int) -> None:
        self.got.append(number)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "monotonic_ns", lambda: int(now[0] * 1e9))
    return now


def test_stop_signal_grace_kill_and_then_hopeless(clock: list[float]) -> None:
    process = Stubborn()
    ladder = KillLadder(cast("ProcessId", process), signal.SIGINT)
    end = int(105e9)
    assert ladder.step(end) == 5
    clock[0] = 103
    assert ladder.step(end) == 2
    assert process.got == [signal.SIGINT]
    waits: list[float] = []
    for _ in range(4):
        clock[0] += waits[-1] if waits else 2
        waits.append(ladder.step(end))
    assert process.got == [signal.SIGINT] + [signal.SIGKILL] * 4
    assert waits == [10, 10, 60, 60]
    assert ladder.hopeless


def test_a_shorter_grace_counts_at_once(clock: list[float]) -> None:
    process = Stubborn()
    ladder = KillLadder(cast("ProcessId", process), signal.SIGTERM)
    ladder.step(int(200e9))
    ladder.step(int(100e9))
    assert process.got == [signal.SIGTERM, signal.SIGKILL]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("9:name=systemd:/x\n8:pids:/p/libpod-1\n", "/sys/fs/cgroup/pids/p/libpod-1/cgroup.procs"),
        ("8:pids:/user.slice\n0::/user.slice\n", None),
    ],
)
def test_only_a_containers_own_group_is_killed(monkeypatch: pytest.MonkeyPatch, text: str, path: str | None) -> None:
    files: dict[str | None, str] = {"/proc/7/cgroup": text, path: "7\n8\n"}
    monkeypatch.setattr(kill, "read_text", lambda name: files.get(name, ""))
    assert kill._cgroup_members(7) == ([7, 8] if path else [])


@pytest.mark.parametrize("path", sorted(Path(kill.__file__).parent.glob("*.py")), ids=lambda path: path.name)
def test_the_agent_is_python_3_8(path: Path) -> None:
    if path.name == "build.py":
        pytest.skip("runs on the portal's side")
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    assert (
        any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body) or not tree.body[1:]
    )
