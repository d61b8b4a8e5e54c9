"""Files in: read, checked and sent in pieces, so that a file may be larger than memory."""

import hashlib
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cli.client import Client, json_of
from cli.errors import CliError, InputError
from cli.output import bytes_text, console
from cli.spec import Upload

PIECE = 256 * 1024
Report = Callable[[int], None]


def pieces(path: Path, report: Report = lambda count: None) -> Iterator[bytes]:
    """Yields a file's bytes piece by piece."""
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece
            report(len(piece))


def sha256_of(path: Path, report: Report = lambda count: None) -> str:
    """Returns a file's SHA-256 in hexadecimal."""
    digest = hashlib.sha256()
    for piece in pieces(path, report):
        digest.update(piece)
    return digest.hexdigest()


def check(uploads: Sequence[Upload]) -> None:
    """Raises InputError that names every file that can't be read, before anything is sent."""
    problems = []
    for upload in uploads:
        if any(part in ("", ".", "..") for part in upload.path.split("/")) or len(upload.path) > 255:
            problems.append(
                f"{upload.local}: {upload.path!r} is no place below /berth/in. Give a path such as data/a.bin."
            )
        try:
            if not stat.S_ISREG(upload.local.stat().st_mode):
                problems.append(f"{upload.local}: is not a file. Pack a folder first: tar -cf data.tar DIR")
            else:
                upload.local.open("rb").close()
        except OSError as error:
            problems.append(f"{upload.local}: {error.strerror}.")
    if problems:
        raise InputError("Some files can't be sent.", lines=problems)


def send_all(client: Client, uploads: Sequence[Upload]) -> list[dict[str, str]]:
    """Uploads the files and returns their entries for the job; raises CliError when a checksum differs."""
    check(uploads)
    with _progress(uploads) as reporter:
        return [{"path": upload.path, "sha256": send(client, upload, reporter(upload))} for upload in uploads]


def send(client: Client, upload: Upload, report: Report) -> str:
    """Uploads one file, again after a lost connection, and returns its checked SHA-256."""
    size = upload.local.stat().st_size
    own = sha256_of(upload.local)
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
    answer = json_of(
        client.request("POST", "/files", tries=4, headers=headers, make_content=lambda: pieces(upload.local, report))
    )
    if answer["sha256"] != own or answer["size"] != size:
        raise CliError(
            f"{upload.local} arrived with SHA-256 {answer['sha256']}, but is {own} here.",
            hint="Did the file change meanwhile? Submit again.",
        )
    return own


@contextmanager
def _progress(uploads: Sequence[Upload]) -> Iterator[Callable[[Upload], Report]]:
    """Shows bars on a terminal, a line for each file elsewhere."""
    if not sys.stderr.isatty():
        yield _tell_line
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns: tuple[Any, ...] = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console(sys.stderr)) as bars:

        def begin(upload: Upload) -> Report:
            task = bars.add_task(upload.local.name, total=upload.local.stat().st_size)
            return lambda count: bars.advance(task, count)

        yield begin


def _tell_line(upload: Upload) -> Report:
    sys.stderr.write(f"Uploading {upload.local} ({bytes_text(upload.local.stat().st_size)}) …\n")
    return lambda count: None
