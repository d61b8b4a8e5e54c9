"""Putting the agent and a key on a node; each converges and may be repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from workers.nodeops import commands
from workers.nodeops.types import NodeOpError

if TYPE_CHECKING:
    from workers.ssh.types import Transport

_CHUNK = 1 << 20
_COMMAND_S = 20.0
_UPLOAD_S = 120.0


def install_agent(transport: Transport, pyz: Path, version: str, *, home: str = commands.AGENT_HOME) -> None:
    """Put an agent's zipapp on the node unless it is there, whole; the last two versions stay."""
    path = commands.agent_path(version, home=home)
    wanted = hashlib.sha256(pyz.read_bytes()).hexdigest()
    if _digest(transport, path) != wanted:
        transport.put(path, _chunks(pyz), mode=0o600, timeout_s=_UPLOAD_S)
        if _digest(transport, path) != wanted:
            raise NodeOpError("agent_damaged", f"{path} on the node differs from what was sent: check the node's disk")
    _must(transport, commands.keep_two_agents_command(version, home=home), "agent_cleanup")


def install_public_key(transport: Transport, public_line: str) -> None:
    """Let a key sign in as the login user."""
    words = public_line.split()
    if len(words) < 2 or "\n" in public_line.strip():
        raise ValueError("a public key is one line: type, base64, comment")
    _must(transport, commands.add_key_command(public_line.strip()), "key_refused")


def forget_links(transport: Transport, *, home: str = commands.AGENT_HOME) -> None:
    """Call when a node is enrolled: tokens of another portal's database must not lock this one out."""
    _must(transport, commands.forget_links_command(home=home), "link_token")


def put_file(
    transport: Transport, sha256: str, chunks: Iterator[bytes], *, timeout_s: float, home: str = commands.AGENT_HOME
) -> None:
    """Put an input file where the agent looks for it; the agent checks its digest before it gives it to a job."""
    transport.put(commands.file_path(sha256, home=home), chunks, mode=0o600, timeout_s=timeout_s)


def _digest(transport: Transport, path: str) -> str:
    # The last line: a noisy login shell may have spoken before.
    lines = _must(transport, commands.file_digest_command(path), "sha256sum").strip().splitlines()
    return lines[-1].split()[0].lstrip("\\") if lines and lines[-1].split() else ""


def _must(transport: Transport, command: str, code: str) -> str:
    result = transport.exec(command, timeout_s=_COMMAND_S)
    words = result.stderr.decode(errors="replace").strip()[-300:]
    if result.rc == 0:
        return result.stdout.decode(errors="replace")
    if "sudo" in words:
        raise NodeOpError("needs_root", f"the login user needs root: allow sudo without a password ({words})")
    raise NodeOpError(code, f"the node refused ({words or f'exit code {result.rc}'})")


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk
