"""Reading a job's log: exact bytes, resumed at the byte where reading broke off."""

import hashlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from cli.client import Client, not_a_portal
from cli.errors import CliError
from cli.terminal import TerminalFilter

LARGEST_READ = 4 * 1024 * 1024
FIRST_TAIL_WINDOW = 64 * 1024

Write = Callable[[bytes], None]


@dataclass(frozen=True)
class Position:
    """Where reading stands: attempt 0 before the first one; `complete` when all that will ever come was read."""

    attempt: int
    offset: int
    length: int
    complete: bool


def stdout_writer(*, raw: bool, out: BinaryIO | None = None) -> Write:
    """Returns what writes log bytes to stdout at once; a terminal gets them made safe unless `raw`."""
    stream = out or sys.stdout.buffer
    screen = TerminalFilter() if sys.stdout.isatty() and not raw else None

    def write(piece: bytes) -> None:
        stream.write(screen.feed(piece) if screen else piece)
        stream.flush()

    return write


class LogReader:
    """Reads one attempt's log after another; `offset` always is the next byte to print."""

    def __init__(
        self, client: Client, job_id: str, write: Write, *, attempt: int | None = None, offset: int = 0
    ) -> None:
        self._client, self._path, self._write = client, f"/jobs/{job_id}/log", write
        self.attempt, self.offset = attempt, offset
        self._digest = hashlib.sha256() if offset == 0 else None

    def next_attempt(self) -> None:
        """Goes on to the attempt after this one."""
        self.attempt, self.offset = (self.attempt or 0) + 1, 0
        self._digest = hashlib.sha256()

    def catch_up(self) -> Position:
        """Prints all that stands now; after an error the next call goes on at the byte where it broke off."""
        while True:
            position, got = self._read_once()
            if not got or position.offset >= position.length:
                return position
            if position.length - position.offset > LARGEST_READ:
                self._read_bulk(position.length)

    def _read_once(self) -> tuple[Position, int]:
        before = self.offset
        with self._client.stream(self._path, attempt=self.attempt, offset=self.offset, limit=LARGEST_READ) as answer:
            head = answer.headers
            if "Berth-Length" not in head:
                raise not_a_portal(answer)
            attempt, length = int(head["Berth-Attempt"]), int(head["Berth-Length"])
            if attempt and self.attempt is None:
                self.attempt = attempt
            skip = self._aligned(int(head["Berth-Offset"]))
            for piece in answer.iter_raw():
                fresh = piece[skip:]
                skip = max(0, skip - len(piece))
                if fresh:
                    self._print(fresh)
        complete = head["Berth-Complete"].lower() == "true" and self.offset >= length
        if complete:
            self._verify(head.get("Berth-SHA256", ""))
        return Position(attempt, self.offset, length, complete), self.offset - before

    def _read_bulk(self, length: int) -> None:
        """Prints up to `length` in one answer, which the portal sends while we print: for who is far behind."""
        wanted = {"Range": f"bytes={self.offset}-{length - 1}"}
        with self._client.stream(f"{self._path}/download", attempt=self.attempt, headers=wanted) as answer:
            if answer.status_code != 206:
                return  # the next ordinary read goes on
            for piece in answer.iter_raw():
                self._print(piece)

    def _print(self, piece: bytes) -> None:
        self._write(piece)
        self.offset += len(piece)
        if self._digest is not None:
            self._digest.update(piece)

    def _aligned(self, begin: int) -> int:
        """Returns how many bytes of the answer were printed before; raises CliError for a hole."""
        if begin > self.offset:
            raise CliError(f"The portal has no log bytes from {self.offset} to {begin}: the log has a hole.")
        return self.offset - begin

    def _verify(self, sha256: str) -> None:
        if sha256 and self._digest is not None and self._digest.hexdigest() != sha256:
            raise CliError(
                f"The log's {self.offset} bytes do not match its SHA-256 {sha256}.",
                hint="They were damaged on the way or on the portal. Read it again: berth job logs JOB > FILE",
            )
        self._digest = None if sha256 else self._digest


def tail_offset(client: Client, job_id: str, attempt: int | None, lines: int) -> int:
    """Returns where the last `lines` lines begin, looking back 4 MiB at most."""
    window = FIRST_TAIL_WINDOW
    while True:
        with client.stream(f"/jobs/{job_id}/log", attempt=attempt, offset=-window, limit=window) as answer:
            begin, length = int(answer.headers["Berth-Offset"]), int(answer.headers["Berth-Length"])
            body = b"".join(answer.iter_raw())
        if lines <= 0:
            return length
        at = len(body) - 1 if body.endswith(b"\n") else len(body)
        for _ in range(lines):
            at = body.rfind(b"\n", 0, at)
            if at < 0:
                break
        if at >= 0:
            return begin + at + 1
        if begin == 0 or window >= LARGEST_READ:
            return begin
        window = min(window * 8, LARGEST_READ)
