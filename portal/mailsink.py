"""A mail server that keeps what it gets: each message becomes an .eml file and a line of output.

For installations without a mail server of their own: `make demo` shows its mails with it. Listens locally only.
"""

from __future__ import annotations

import argparse
import asyncio
import email.policy
import os
import re
import signal
import sys
import tempfile
import time
from email.parser import BytesParser
from pathlib import Path

from aiosmtpd.smtp import SMTP, Envelope, Session

MAX_BYTES = 20 * 1024 * 1024
SUBJECT_LENGTH = 120


class Sink:
    """Handler of aiosmtpd that writes messages into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Keep one message; the answer is SMTP's."""
        content = envelope.original_content or b""
        self._count += 1
        path = keep(self._folder, content, f"{int(time.time() * 1000)}-{os.getpid()}-{self._count}")
        print(f"to {', '.join(map(str, envelope.rcpt_tos))}: {subject(content)} ({path})", flush=True)
        return "250 Message kept"


def keep(folder: Path, content: bytes, name: str) -> Path:
    """Write one message whole (readers never see half of one) and return its file."""
    path = folder / f"{name}.eml"
    descriptor, temporary = tempfile.mkstemp(dir=folder)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    Path(temporary).replace(path)
    return path


def subject(content: bytes) -> str:
    """Return the decoded subject on one line."""
    headers = BytesParser(policy=email.policy.default).parsebytes(content, headersonly=True)
    return re.sub(r"\s+", " ", str(headers["subject"] or "(no subject)"))[:SUBJECT_LENGTH]


async def serve(host: str, port: int, folder: Path) -> None:
    """Receive mail until SIGTERM or SIGINT."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    handler = Sink(folder)
    server = await loop.create_server(
        lambda: SMTP(handler, data_size_limit=MAX_BYTES, enable_SMTPUTF8=True), host, port
    )
    print(f"listening on {host}:{port}, keeping mail in {folder}", flush=True)
    async with server:
        await ended.wait()


def main(arguments: list[str] | None = None) -> int:
    """Run the sink; exit code 1 when the port is taken."""
    parser = argparse.ArgumentParser(prog="python -m portal.mailsink", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        asyncio.run(serve(options.host, options.port, options.folder))
    except OSError as error:
        print(f"Cannot listen on {options.host}:{options.port}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
