"""The supervisor's ear: one JSON request and one JSON answer per connection on a unix socket (0600)."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import socketserver
import threading
from pathlib import Path
from typing import Any, Protocol

from portal.embedded.layout import SOCKET_PATH_BYTES, own, private_place
from portal.env import Env
from portal.supervisor.spec import Report, SupervisorError

REQUEST_BYTES = 64 * 1024
ANSWER_BYTES = 4 * 1024 * 1024
TIMEOUT_SECONDS = 10.0


class Controlled(Protocol):
    """What the control socket needs of a supervisor."""

    def reports(self) -> list[Report]:
        """Return how each process stands."""

    def restart(self, name: str) -> None:
        """Restart one."""

    def kill(self, name: str, number: int) -> bool:
        """Signal one."""

    def request_stop(self) -> None:
        """Ask for the stop of all."""


def socket_path(env: Env) -> Path:
    """Return where the socket is, within the kernel's limit of a path's length."""
    near = env.data_dir / "locks" / "supervisor.sock"
    if len(os.fsencode(near)) <= SOCKET_PATH_BYTES:
        return near
    return private_place(env).with_suffix(".ctl") / "supervisor.sock"


class ControlServer:
    """Answers requests in a thread of its own until closed."""

    def __init__(self, controlled: Controlled, env: Env) -> None:
        self._path = socket_path(env)
        own(self._path.parent, None)
        self._path.unlink(missing_ok=True)  # of a supervisor that was killed: we hold its lock now
        self._server = _Server(str(self._path), _Handler)
        self._path.chmod(0o600)
        self._server.controlled = controlled
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name="berth-control", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop answering and remove the socket."""
        self._server.shutdown()
        self._server.server_close()
        self._path.unlink(missing_ok=True)


def ask(env: Env, request: dict[str, Any]) -> dict[str, Any]:
    """Send one request to the supervisor of the data folder and return its answer; SupervisorError if it refuses."""
    path = socket_path(env)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        try:
            connection.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            raise SupervisorError(f"Berth does not run on {env.data_dir} (start it: `make demo`).") from None
        except PermissionError:
            raise SupervisorError(
                f"{path} belongs to another user: run berth-ctl as the user who started Berth."
            ) from None
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as stream:
            answer = json.loads(stream.readline(ANSWER_BYTES) or b'{"error": "the supervisor ended"}')
    if "error" in answer:
        raise SupervisorError(str(answer["error"]))
    return dict(answer)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    controlled: Controlled


class _Handler(socketserver.StreamRequestHandler):
    timeout = TIMEOUT_SECONDS
    server: _Server

    def handle(self) -> None:
        try:
            request = json.loads(self.rfile.readline(REQUEST_BYTES))
            answer = _answer(self.server.controlled, request)
        except (SupervisorError, ValueError, KeyError, TypeError) as error:
            answer = {"error": str(error)}
        with contextlib.suppress(OSError):
            self.wfile.write(json.dumps(answer).encode() + b"\n")


def _answer(controlled: Controlled, request: dict[str, Any]) -> dict[str, Any]:
    match request["do"]:
        case "ps":
            return {"processes": [dataclasses.asdict(report) for report in controlled.reports()]}
        case "restart":
            controlled.restart(str(request["name"]))
            return {"ok": True}
        case "kill":
            number = signal.Signals(int(request["signal"]))
            return {"ok": controlled.kill(str(request["name"]), number)}
        case "stop":
            controlled.request_stop()
            return {"ok": True, "pid": os.getpid()}
        case other:
            raise SupervisorError(f"Unknown request {other!r}.")
