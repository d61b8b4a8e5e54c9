"""Hands this SSH channel's descriptors to the daemon, starting or replacing it where needed, and waits."""

from __future__ import annotations

import array
import json
import os
import socket
import sys
import time
from typing import Any, Dict, List, Optional

from workers.agent.paths import Paths

_DEADLINE_S = 20.0
_START_S = 5.0
_ANSWER_S = 10.0


def main(paths: Paths, version: str, nonce: str, program: List[str]) -> int:
    """Return 0 when the link has ended, 4 when there was none (the reason is on stderr)."""
    paths.make()
    deadline = time.monotonic() + _DEADLINE_S
    started = 0.0
    while time.monotonic() < deadline:
        connection = _connect(paths.socket)
        if connection is None:
            if time.monotonic() - started > _START_S:
                started = time.monotonic()
                _start([*program, "daemon"])
            time.sleep(0.02)
            continue
        answer = _ask(connection, {"ask": "attach", "version": version, "nonce": nonce}, [0, 1])
        if answer is not None and answer.get("ok"):
            connection.settimeout(None)
            connection.recv(1)
            return 0
        connection.close()
        if answer is not None:
            _step_down(paths.socket)
    sys.stderr.write("berth: the agent's daemon does not answer; see record/agent.log in its home\n")
    return 4


def _connect(path: str) -> Optional[socket.socket]:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_ANSWER_S)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    return connection


def _ask(connection: socket.socket, request: Dict[str, Any], fds: List[int]) -> Optional[Dict[str, Any]]:
    """The daemon's answer, None when it ended instead."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds).tobytes())] if fds else []
    try:
        connection.sendmsg([json.dumps(request).encode()], rights)
        line = connection.makefile("rb").readline()
        answer = json.loads(line.decode()) if line else None
    except (OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None


def _step_down(path: str) -> None:
    """Ask a daemon of another version to leave; it goes without an answer."""
    connection = _connect(path)
    if connection is not None:
        _ask(connection, {"ask": "step_down"}, [])
        connection.close()


def _start(command: List[str]) -> None:
    """Start the daemon in a session of its own, with nothing of this channel."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.umask(0o077)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.closerange(3, 1024)
    os.execv(command[0], command)  # noqa: S606 - no shell is the point  # nosec B606
