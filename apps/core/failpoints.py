"""Named points at which tests park a process or kill it; off unless BERTH_FAILPOINTS names a folder.

A file `<folder>/<point>` arms a point for everybody, `<folder>/<point>@<key>` for one key (a job's name, mostly); its
text is `park` or `kill`. Reaching it makes `<file>.hit`; a parked process goes on when the file is removed.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

PARK_LIMIT_S = 900.0
_LOOK_EVERY_S = 0.02
_HIT = ".hit"


def failpoint(point: str, key: str | Callable[[], str] = "") -> None:
    """Parks or kills here when the point is armed for this key; costs one dictionary look-up when off.

    A key that is not at hand is given as a function, called only while the point is armed for somebody.
    """
    folder = os.environ.get("BERTH_FAILPOINTS")
    if folder:
        _reach(Path(folder), point, key)


def _reach(folder: Path, point: str, key: str | Callable[[], str]) -> None:
    armed = [f for f in folder.glob(f"{point}*") if f.suffix != _HIT and f.name.partition("@")[0] == point]
    if not armed:
        return
    word = key if isinstance(key, str) else key()
    for file in armed:
        if file.name in (point, f"{point}@{word}"):
            _stay(file, word)


def _stay(file: Path, word: str) -> None:
    try:
        action = file.read_text().strip()
    except OSError:  # disarmed in this very moment
        return
    file.with_name(file.name + _HIT).write_text(f"{word}\n")
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    deadline = time.monotonic() + PARK_LIMIT_S
    while file.exists() and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
