"""The ladder of signals, and the agent's oldest Python."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
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


def test_who_catches_a_signal_is_read_from_the_kernel() -> None:
    code = "import signal, sys; {}; print(1, flush=True); sys.stdin.read()"
    for setup, expected in (("signal.signal(signal.SIGTERM, lambda *_: 0)", True), ("pass", False)):
        argv = [sys.executable, "-c", code.format(setup)]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            assert kill.catches(child.pid, signal.SIGTERM) is expected
    assert kill.catches(2**22 + 1, signal.SIGTERM) is False


def test_a_container_that_is_deaf_gets_no_grace(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    process = Stubborn()
    process.pid = 4242
    asked: list[tuple[list[int], int]] = []
    monkeypatch.setattr(kill, "catches", lambda pid, number: pid in hearing)
    monkeypatch.setattr(kill, "_cgroup_members", lambda pid: [4242, 4243])
    monkeypatch.setattr(kill, "_signal_all", lambda pids, number: asked.append((pids, number)))
    hearing: set[int] = set()
    KillLadder(cast("ProcessId", process), signal.SIGTERM).step(int(130e9))
    assert asked == [([4242, 4243], signal.SIGTERM)]
    assert process.got == [signal.SIGKILL]
    hearing.add(4243)
    assert KillLadder(cast("ProcessId", process), signal.SIGTERM).step(int(130e9)) == 30
