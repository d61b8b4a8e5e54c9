"""Input files: from the content-addressed store into an attempt's folder."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
from typing import Any, Dict, List, Optional

from workers.agent.causes import Fault

_KEEP_UNUSED_S = 24 * 3600
_CHUNK = 1 << 20


def place_inputs(store: str, files: List[Dict[str, Any]], folder: str) -> Optional[Fault]:
    """Link (or copy) each file from the store to its path below `folder`; returns what went wrong."""
    for entry in files:
        source, target = os.path.join(store, entry["sha256"]), os.path.join(folder, entry["path"])
        fault = _check(source, entry)
        if fault is not None:
            return fault
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if not os.path.exists(target):
                _link(source, target)
        except OSError as error:
            if isinstance(error, (NotADirectoryError, FileExistsError)):
                return Fault("user", "file_path", f"{entry['path']} is below another file")
            code = "disk_full" if error.errno == errno.ENOSPC else "file_unusable"
            return Fault("node", code, f"{entry['path']}: {error.strerror}")
    return None


def drop_unused(store: str) -> None:
    """Delete store files that no attempt links to and that nobody put lately."""
    oldest = time.time() - _KEEP_UNUSED_S
    for name in os.listdir(store):
        path = os.path.join(store, name)
        info = os.lstat(path)
        if info.st_nlink == 1 and info.st_mtime < oldest:
            os.unlink(path)


def _check(source: str, entry: Dict[str, Any]) -> Optional[Fault]:
    digest = hashlib.sha256()
    try:
        with open(source, "rb") as file:
            for chunk in iter(lambda: file.read(_CHUNK), b""):
                digest.update(chunk)
            size = file.tell()
    except FileNotFoundError:
        return Fault("node", "file_missing", f"{entry['path']} was not put on the node")
    if size != entry["size"] or digest.hexdigest() != entry["sha256"]:
        os.unlink(source)
        return Fault("node", "file_corrupt", f"{entry['path']} arrived damaged and was deleted; put it again")
    return None


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        temporary = target + ".new"
        shutil.copyfile(source, temporary)
        os.replace(temporary, target)
    os.chmod(target, 0o444)
