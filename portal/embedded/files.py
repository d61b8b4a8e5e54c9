"""Files that hold secrets or rules of the servers."""

from __future__ import annotations

import os
from pathlib import Path

from portal.embedded.identity import ServerUser


def write_private(path: Path, text: str, user: ServerUser | None) -> None:
    """Replace a file by one with mode 0600 that belongs to the servers' user."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        if user is not None:
            os.fchown(file.fileno(), user.uid, user.gid)
        file.write(text)
    temporary.replace(path)


def sync_folder(folder: Path) -> None:
    """Make a rename inside the folder survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
