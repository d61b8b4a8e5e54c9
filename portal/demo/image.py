"""The demo's container image, built on the spot from this machine's Python, numpy and scikit-learn's digits."""

import hashlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable
from pathlib import Path

TRAIN = Path(__file__).with_name("train.py")
_LEFT_OUT = {
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "turtledemo",
    "site-packages",
    "dist-packages",
    "__pycache__",
    "ensurepip",
    "lib2to3",
}
_LIBRARY = re.compile(rb"(/\S+) \(0x")


def image_key() -> str:
    """Returns what the image depends on, as a short hash: an equal key needs no new build."""
    import numpy as np

    seed = f"{sys.version}{np.__version__}".encode() + TRAIN.read_bytes() + Path(__file__).read_bytes()
    return hashlib.sha256(seed).hexdigest()[:12]


def build_root(archive: Path) -> None:
    """Writes the image's root file system as a tar; files keep the absolute paths that Python expects."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    python = Path(sys.executable).resolve()
    packages = _package("numpy").parent
    interpreter = [python, *_tree(stdlib, _LEFT_OUT)]
    numpy = [file for name in ("numpy", "numpy.libs") for file in _tree(packages / name, {"tests", "__pycache__"})]
    libraries = _shared_libraries([f for f in [*interpreter, *numpy] if f == python or ".so" in f.suffixes])
    temporary = archive.with_suffix(".part")
    with tarfile.open(temporary, "w") as tar:
        for file in [*interpreter, *(path for path in libraries if packages not in path.parents)]:
            tar.add(file.resolve(), arcname=str(file).lstrip("/"), recursive=False)
        for file in numpy:
            # Into the standard library itself: Debian's Python looks for packages elsewhere than everybody else's.
            tar.add(file, arcname=str(stdlib / file.relative_to(packages)).lstrip("/"), recursive=False)
        for folder in ("tmp", "proc", "sys", "dev", "etc", "berth"):
            _folder(tar, folder)
        _link(tar, "usr/local/bin/python3", str(python))
        _link(tar, "usr/local/bin/python", str(python))
        tar.add(TRAIN, arcname="opt/demo/train.py")
        tar.add(_package("sklearn") / "datasets/data/digits.csv.gz", arcname="opt/demo/digits.csv.gz")
        busybox = shutil.which("busybox")
        if busybox:
            tar.add(busybox, arcname="bin/busybox")
            for applet in ("sh", "ls", "cat", "sleep", "echo", "env"):
                _link(tar, f"usr/local/bin/{applet}", "/bin/busybox")
            _link(tar, "bin/sh", "/bin/busybox")
    temporary.replace(archive)


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"{name} is not installed: run `make install`")
    return Path(spec.origin).parent


def _tree(folder: Path, without: set[str]) -> list[Path]:
    found: list[Path] = []
    for root, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if f not in without and not f.startswith("config-")]
        found += [Path(root, name) for name in names if not name.endswith((".a", ".pyc"))]
    return found


def _shared_libraries(binaries: Iterable[Path]) -> list[Path]:
    """Asks the loader which libraries the binaries need, in one call."""
    environ = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, env=environ, check=False)
    return [Path(path) for path in dict.fromkeys(os.path.normpath(p.decode()) for p in _LIBRARY.findall(done.stdout))]


def _folder(tar: tarfile.TarFile, name: str) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
    tar.addfile(info)


def _link(tar: tarfile.TarFile, name: str, target: str) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    tar.addfile(info, io.BytesIO())
