"""Three columns of the kill matrix, other ones each day; `make kill-matrix` runs them all at every step."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from portal.env import REPO_DIR

COLUMNS = ("web", "relay", "scheduler", "nodes", "redis", "postgres", "partition", "power", "agent", "freeze")
STEPS = (("S2", "S6", "S7", "S9b", "S9c", "S11", "S12", "S14"), ("S3", "S5", "S10", "S13"))
FOLDER = REPO_DIR / ".berth" / "kill-matrix-test"  # the same each time: a run clears what a killed one left
WITHIN_S = 600


@pytest.mark.slow
@pytest.mark.timeout(700)
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: sandbox nodes are made of namespaces, links and cgroups")
def test_nothing_deviates_in_todays_columns(tmp_path: Path) -> None:
    day = dt.datetime.now(dt.UTC).timetuple().tm_yday
    columns = [COLUMNS[(3 * day + i) % len(COLUMNS)] for i in range(3)]
    found = tmp_path / "found.json"
    argv = [sys.executable, "-m", "benchmarks.kill_matrix", "--columns", ",".join(columns)]
    argv += ["--steps", ",".join(STEPS[day % 2]), "--at-most-s", "20", "--folder", str(FOLDER), "--json", str(found)]

    done = subprocess.run(argv, cwd=REPO_DIR, capture_output=True, text=True, timeout=WITHIN_S, check=False)

    assert found.exists(), done.stdout + done.stderr
    result = json.loads(found.read_text())
    assert result["exceptions"] == 0, done.stdout
    assert len(result["cells"]) == len(columns) * len(STEPS[day % 2])
    assert all(cell["hit"] for cell in result["cells"])
    assert done.returncode == 0
