"""The system user under which the embedded servers run when Berth itself is started as root.

PostgreSQL refuses to run as root. `nobody` is no answer: other services share it, and could then read
the data. So root creates one system user of its own (no password, no home, no shell).
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.embedded.errors import EmbeddedError


@dataclass(frozen=True)
class ServerUser:
    """A user that root switches to for the servers."""

    name: str
    uid: int
    gid: int

    def popen_options(self) -> dict[str, Any]:
        """Arguments for subprocess that run a command as this user, with none of root's groups."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def can_enter(self, folder: Path) -> bool:
        """Say whether this user may pass through the folder and all its parents."""
        return self._test("-x", folder)

    def can_run(self, program: Path) -> bool:
        """Say whether this user may read and run the program where it lies."""
        return self._test("-x", program) and self._test("-r", program)

    def _test(self, check: str, path: Path) -> bool:
        command = ["/bin/sh", "-c", f'test {check} "$1"', "sh", str(path)]
        done = subprocess.run(command, check=False, timeout=10, cwd="/", **self.popen_options())
        return done.returncode == 0


def server_user(name: str) -> ServerUser | None:
    """Return the user for the servers: None (ourselves) unless we are root, when it is created if absent."""
    if os.geteuid() != 0:
        return None
    found = _lookup(name)
    if found is None:
        _create(name)
        found = _lookup(name)
    if found is None:
        raise EmbeddedError(f"The system user {name!r} could not be created: create it, or set BERTH_SERVER_USER.")
    if found.uid == 0:
        raise EmbeddedError("BERTH_SERVER_USER must not be root: PostgreSQL refuses to run as root.")
    return found


def known_server_user(name: str) -> ServerUser | None:
    """Return the user for the servers if it exists already (never creates it)."""
    return _lookup(name) if os.geteuid() == 0 else None


def _lookup(name: str) -> ServerUser | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return ServerUser(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)


def _create(name: str) -> None:
    program = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        raise EmbeddedError(
            f"Started as root, but there is no user {name!r} and no useradd to create it: "
            "create a system user and set BERTH_SERVER_USER to its name, or start Berth as an ordinary user."
        )
    command = [program, "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    command += ["--shell", "/usr/sbin/nologin", "--comment", "Berth servers", name]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    if done.returncode != 0 and _lookup(name) is None:  # another Berth may have created it meanwhile
        raise EmbeddedError(f"useradd could not create {name!r}: {done.stderr.strip()}. Set BERTH_SERVER_USER.")
