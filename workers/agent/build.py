"""Builds the agent's zipapp (on the portal's side)."""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import secrets
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pynvml

_HERE = Path(__file__).parent
_MAIN = b"import sys\nfrom workers.agent.main import main\nsys.exit(main())\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Agent:
    """A built agent."""

    path: Path
    version: str


@functools.cache
def built_agent() -> Agent:
    """This process's agent, built once, into Berth's data folder where there is one."""
    data = os.environ.get("BERTH_DATA_DIR")
    if data:
        return build(Path(data) / "agent")
    folder = Path(tempfile.mkdtemp(prefix="berth-agent-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return build(folder)


def build(folder: Path) -> Agent:
    """Write `<version>.pyz` into `folder` and return it; the same sources give the same version."""
    members = _members()
    digest = hashlib.sha256()
    for name, data in members.items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    version = digest.hexdigest()[:12]
    path = folder / f"{version}.pyz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _write(path, members)
    return Agent(path, version)


def _members() -> dict[str, bytes]:
    modules = (path for path in _HERE.glob("*.py") if path.name != "build.py")
    sources = {f"workers/agent/{path.name}": path.read_bytes() for path in modules}
    sources["workers/__init__.py"] = b""
    sources["pynvml.py"] = Path(pynvml.__file__).read_bytes()
    sources["__main__.py"] = _MAIN
    return dict(sorted(sources.items()))


def _write(path: Path, members: dict[str, bytes]) -> None:
    temporary = path.with_suffix(f".{secrets.token_hex(4)}")
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    temporary.replace(path)
