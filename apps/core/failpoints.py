"""Named points at which tests park a process or kill it; off unless BERTH_FAILPOINTS names a folder.

A file `<folder>/<name>` arms a point; its text is `park` or `kill`, optionally followed by the key it waits for.
Reaching it makes `<name>.hit`; a parked process goes on when the file is removed.
"""

import os
import signal
import time
from pathlib import Path

PARK_LIMIT_S = 900.0


def failpoint(name: str, key: str = "") -> None:
    """Parks or kills here when the point is armed for this key; costs one dictionary look-up when off."""
    folder = os.environ.get("BERTH_FAILPOINTS")
    if not folder:
        return
    path = Path(folder) / name
    try:
        action, _, wanted = path.read_text().strip().partition(" ")
    except OSError:
        return
    if wanted and wanted != key:
        return
    hit = Path(folder) / f"{name}.hit"
    hit.write_text(f"{key}\n")
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    deadline = time.monotonic() + PARK_LIMIT_S
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
