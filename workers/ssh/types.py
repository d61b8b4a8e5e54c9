"""What the rest of Berth sees of SSH: targets, keys, results, errors and the Transport protocol."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self


class SshError(Exception):
    """Any failure between Berth and a node's sshd; the message says what to do."""

    code = "ssh_error"


class HostUnreachable(SshError):
    """No TCP connection, no SSH banner, or a connection that died."""

    code = "host_unreachable"


class HostKeyMismatch(SshError):
    """The node shows another host key than the pinned one."""

    code = "host_key_mismatch"


class AuthFailed(SshError):
    """The node refused the key or the password."""

    code = "auth_failed"


class SshTimeout(SshError):
    """A command, a channel or a transfer did not end before its deadline."""

    code = "ssh_timeout"


class TransferFailed(SshError):
    """A file could not be written on the node (disk full, no right to write)."""

    code = "transfer_failed"


@dataclass(frozen=True)
class SshTarget:
    """Where to reach a node; `host` is a name, an IPv4 or an IPv6 address (zone allowed)."""

    host: str
    port: int
    user: str


@dataclass(frozen=True)
class HostKey:
    """A server's public host key as OpenSSH writes it: `type base64`."""

    type: str
    base64: str

    @property
    def fingerprint(self) -> str:
        """The fingerprint that `ssh-keygen -l` shows: `SHA256:` and unpadded base64."""
        digest = hashlib.sha256(base64.b64decode(self.base64)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


@dataclass(frozen=True)
class ExecResult:
    """One finished remote command; `rc` is -1 when a signal ended it or the connection died."""

    rc: int
    stdout: bytes
    stderr: bytes


class ByteStream(Protocol):
    """Both directions of one long-lived remote command."""

    def send(self, data: bytes) -> None:
        """Send all of `data` within 10 s; after an SshError the stream is of no more use."""

    def recv(self, max_bytes: int) -> bytes:
        """Return what is there, b"" at end of stream; raises SshTimeout when the deadline passes with nothing."""

    def set_deadline(self, seconds: float | None) -> None:
        """Bound each following recv by `seconds`; a send has its own bound, after which the stream is spoilt."""

    @property
    def last_words(self) -> str:
        """The end of what the command wrote to stderr."""

    def close(self) -> None:
        """End the stream; safe from any thread and more than once."""


class Transport(Protocol):
    """One kept connection to one node; thread-safe, at most eight channels at once."""

    @property
    def alive(self) -> bool:
        """False once the connection is known to be dead; a True may still be stale."""

    def exec(self, command: str, *, stdin: bytes = b"", timeout_s: float) -> ExecResult:
        """Run one command line; `stdin` up to 1 MiB, the output up to 8 MiB."""

    def open_stream(self, command: str, *, timeout_s: float = 10) -> ByteStream:
        """Start a long-lived command and return its stdin and stdout."""

    def put(self, path: str, chunks: Iterable[bytes], *, mode: int = 0o600, timeout_s: float) -> None:
        """Write a file whole or not at all (temporary name, then rename), as root, making its folder."""

    def close(self) -> None:
        """Close the connection and every channel on it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
