"""Failpoints: off, armed for everybody, armed for one key."""

import os
import signal
from pathlib import Path

import pytest

from apps.core import failpoints
from apps.core.failpoints import failpoint


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BERTH_FAILPOINTS", str(tmp_path))
    monkeypatch.setattr(failpoints, "PARK_LIMIT_S", 0.0)  # nobody waits here
    return tmp_path


def hits(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in folder.glob("*.hit")}


def test_off_asks_nobody_for_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BERTH_FAILPOINTS", raising=False)
    failpoint("S1", lambda: pytest.fail("the key was asked for"))
    monkeypatch.setenv("BERTH_FAILPOINTS", str(tmp_path / "nowhere"))
    failpoint("S1", lambda: pytest.fail("the key was asked for"))


def test_a_point_armed_for_everybody_is_hit_with_the_key(folder: Path) -> None:
    (folder / "S1").write_text("park")
    failpoint("S1", lambda: "train")
    assert hits(folder) == {"S1.hit": "train"}


def test_a_point_armed_for_keys_lets_others_pass(folder: Path) -> None:
    for key in ("one", "two"):
        (folder / f"S1@{key}").write_text("park")
    failpoint("S1", "three")
    assert hits(folder) == {}
    failpoint("S1", "two")
    assert hits(folder) == {"S1@two.hit": "two"}


def test_names_are_whole(folder: Path) -> None:
    (folder / "S10").write_text("park")
    failpoint("S1", lambda: pytest.fail("S10 is not S1"))
    assert hits(folder) == {}


def test_kill_ends_the_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append(number))
    (folder / "S5@train").write_text("kill")
    failpoint("S5", "train")
    assert killed == [signal.SIGKILL]
