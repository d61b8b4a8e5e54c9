"""Fetching a job's kept outputs: one tar, resumed where it broke off, checked, then unpacked safely."""

import hashlib
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cli.client import Client
from cli.errors import CliError, InputError
from cli.follow import Patience, is_outage

Kept = Any  # an open temporary file; typing.IO lacks readinto
Report = Callable[[int], None]


def fetch(
    client: Client, job_id: str, attempt: int, into: Path, *, sha256: str, note: Callable[[str], None], report: Report
) -> list[str]:
    """Unpacks the outputs into a folder and returns the names of the files; raises CliError for damaged ones."""
    try:
        into.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {into} can't be made: {error.strerror}.") from None
    with tempfile.TemporaryFile(dir=into, prefix=".berth-") as kept:  # on the disk that must have the room anyway
        _download(client, job_id, attempt, kept, note, report)
        _verify(kept, sha256)
        kept.seek(0)
        return _unpack(kept, into, note)


def _download(
    client: Client, job_id: str, attempt: int, kept: Kept, note: Callable[[str], None], report: Report
) -> None:
    patience = Patience(note)
    while True:
        done = kept.seek(0, os.SEEK_END)
        headers = {"Range": f"bytes={done}-"} if done else {}
        try:
            with client.stream(f"/jobs/{job_id}/outputs", attempt=attempt, headers=headers) as answer:
                if done and answer.status_code != 206:
                    kept.seek(0)
                    kept.truncate()
                for piece in answer.iter_raw():
                    kept.write(piece)
                    report(len(piece))
            return
        except CliError as error:
            if not is_outage(error):
                raise
            client.sleep(patience.failed(error, f"berth job outputs {job_id}"))


def _verify(kept: Kept, sha256: str) -> None:
    kept.seek(0)
    own = hashlib.file_digest(kept, "sha256").hexdigest()
    if sha256 and own != sha256:
        raise CliError(f"The outputs arrived with SHA-256 {own}, but {sha256} was kept.", hint="Fetch them again.")


def _unpack(kept: Kept, into: Path, note: Callable[[str], None]) -> list[str]:
    """Unpacks with tarfile's data filter: nothing may leave the folder, whatever the job wrote into the tar.

    What the filter refuses is left out with a note; the rest arrives.
    """
    refused: set[str] = set()
    try:
        with tarfile.open(fileobj=kept, mode="r:") as archive:
            # one after the other: the filter judges by what lies in the folder by then
            archive.extractall(into, members=_safe(archive, into, refused, note), filter="data")
            return [one.name for one in archive.getmembers() if not one.isdir() and one.name not in refused]
    except OSError as error:
        raise CliError(f"The outputs can't be unpacked to {into}: {error.strerror or error}.") from None
    except tarfile.TarError as error:
        raise CliError(f"The outputs are not a readable tar: {error}.") from None


def _safe(
    archive: tarfile.TarFile, into: Path, refused: set[str], note: Callable[[str], None]
) -> Iterator[tarfile.TarInfo]:
    """Yields what may be unpacked; adds the names of the others to `refused`."""
    for member in archive:
        try:
            if member.islnk() and member.linkname in refused:
                raise tarfile.FilterError(f"{member.name!r} is the same file as {member.linkname!r}")
            tarfile.data_filter(member, str(into))
        except tarfile.FilterError as error:
            refused.add(member.name)
            note(f"Left out: {error}.")
        else:
            yield member
