"""The agent's long-lived process."""

from __future__ import annotations

import array
import fcntl
import json
import logging
import logging.handlers
import os
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional, Tuple

from workers.agent import clock, wire
from workers.agent.failpoints import Failpoints
from workers.agent.monitor import Monitor
from workers.agent.operations import Operations, RefusedError
from workers.agent.paths import Paths
from workers.agent.podman import Podman
from workers.agent.record import Record
from workers.agent.session import Session, offsets_of
from workers.agent.starting import Node

log = logging.getLogger("berth.agent")

_WORKERS = 8
_HANDSHAKE_S = 10.0
_HANDSHAKE_BYTES = 4096


class Daemon:
    """Accepts attachments, one link at a time, and owns everything on this node that is Berth's."""

    def __init__(self, paths: Paths, version: str, program: List[str]) -> None:
        self._paths = paths
        self._version = version
        self._record = Record(paths)
        self._session: Optional[Session] = None
        # Held while something is announced, so that resent and new statuses keep their order.
        self._order = threading.Lock()
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="operation")
        self._monitor = Monitor([*program, "sampler"], paths, version, self._announce)
        failpoints = Failpoints(paths.failpoints)
        node = Node(paths, self._record, Podman(), failpoints, self._announce, self._bytes_ready)
        self._operations = Operations(node, self._monitor)
        self._messages: Dict[str, Callable[[Session, wire.Message], None]] = {
            "hello": self._on_hello,
            "acked": self._on_acked,
            "op": self._on_op,
            "op_ack": lambda _, message: self._record.forget_result(wire.member(message, "id", str)),
            "status_ack": self._on_status_ack,
            "ack": self._on_ack,
            "credit": lambda session, message: session.grant(wire.member(message, "bytes", int)),
            "ping": lambda session, message: session.say({"type": "pong", "n": message.get("n")}),
            "bye": lambda session, _: session.close(),
        }

    def serve(self, listener: socket.socket) -> None:
        """Run until told to step down."""
        signal.signal(signal.SIGTERM, lambda *_: self._step_down())
        self._operations.recover()
        self._monitor.start(self._operations.busy)
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self._welcome, args=(connection,), name="link", daemon=True).start()

    # -- attachments -----------------------------------------------------------------------------------------------

    def _welcome(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(_HANDSHAKE_S)
            request, fds = receive_request(connection)
            if request.get("ask") == "step_down":
                self._step_down()
            same = request.get("version") == self._version and len(fds) == 2
            connection.sendall(json.dumps({"ok": same, "version": self._version}).encode() + b"\n")
            if same:
                session = Session(fds[0], fds[1], connection, lambda: iter(self._operations.streams()))
                session.open(wire.marker(str(request.get("nonce")), self._version))
                session.run(self._on_message)
                with self._order:
                    if self._session is session:
                        self._session = None
                return
            for fd in fds:
                os.close(fd)
        except (OSError, ValueError):
            log.exception("attach")
        connection.close()

    def _step_down(self) -> None:
        """Leave at once: containers, FIFOs and record need no farewell."""
        self._monitor.stop()
        os._exit(0)

    # -- messages --------------------------------------------------------------------------------------------------

    def _on_message(self, session: Session, message: wire.Message) -> None:
        if (session.token is None) != (message["type"] == "hello"):
            raise wire.WireError("frame_field", "the first message, and only it, must be hello")
        handler = self._messages.get(message["type"])
        if handler is not None:
            handler(session, message)

    def _on_hello(self, session: Session, message: wire.Message) -> None:
        token = wire.member(message, "link_token", int)
        if wire.member(message, "protocol", int) != wire.PROTOCOL:
            raise wire.WireError("protocol", f"this agent speaks protocol {wire.PROTOCOL}")
        if not self._record.accept_token(token):
            raise wire.WireError("stale_link_token", f"a newer link than {token} has been here")
        session.token = token
        with self._order:
            older, self._session = self._session, session
            if older is not None:
                older.say({"type": "error", "code": "superseded", "message": "a newer link has taken over"})
                older.close()
            session.say(self._hello())
            for attempt in self._operations.attempts():
                for status in attempt.state.pending():
                    session.say(status)
            for result in self._record.results():
                session.say(result)

    def _hello(self) -> wire.Message:
        return {
            "type": "hello",
            "protocol": wire.PROTOCOL,
            "version": self._version,
            "epoch": self._record.epoch,
            "inventory_hash": self._monitor.inventory_hash,
            "attempts": [attempt.summary() for attempt in self._operations.attempts()],
            **clock.now(),
        }

    def _on_acked(self, session: Session, message: wire.Message) -> None:
        offsets = offsets_of(message)
        for attempt, stream, spool in self._operations.streams():
            offset = offsets.get((attempt, stream), 0)
            # A portal that lost what it had acknowledged can't have it again; waiting for it would keep it for ever.
            spool.ack(offset if offset >= spool.first else spool.length)
        session.begin_bytes(offsets)

    def _on_ack(self, session: Session, message: wire.Message) -> None:
        attempt = self._operations.attempt(wire.member(message, "attempt", str))
        spool = attempt.spools.get(wire.member(message, "stream", int)) if attempt is not None else None
        if spool is not None:
            spool.ack(wire.member(message, "offset", int))

    def _on_status_ack(self, session: Session, message: wire.Message) -> None:
        attempt = self._operations.attempt(wire.member(message, "attempt", str))
        if attempt is not None:
            attempt.state.acknowledge(wire.member(message, "seq", int))

    def _on_op(self, session: Session, message: wire.Message) -> None:
        for name, kind in (("id", str), ("token", int), ("kind", str), ("args", dict)):
            wire.member(message, name, kind)
        if session is not self._session:
            return  # the newer link's portal knows better
        if message["kind"] in Operations.ORDERED:
            self._carry_out(message)
        else:
            self._pool.submit(self._carry_out, message)

    def _carry_out(self, message: wire.Message) -> None:
        answer: Dict[str, Any] = {"type": "result", "id": message["id"], "token": message["token"]}
        kept = self._record.result(message["id"])
        if kept is not None and kept["token"] > message["token"]:
            refused = {"code": "stale_token", "message": f"token {kept['token']} has been here"}
            self._announce({**answer, "ok": False, "error": refused, "data": {}})
            return
        if kept is None:
            kept = self._try(message)
        answer.update(ok=kept["ok"], error=kept["error"], data=kept["data"])
        self._record.save_result(answer)
        self._announce(answer)

    def _try(self, message: wire.Message) -> Dict[str, Any]:
        deadline = message.get("deadline_s")
        deadline_s = float(deadline) if isinstance(deadline, (int, float)) else 30.0
        try:
            data = self._operations.carry_out(message["kind"], message["args"], deadline_s)
        except RefusedError as error:
            return {"ok": False, "error": {"code": error.code, "message": str(error)}, "data": {}}
        except Exception as error:
            log.exception("operation %s", message["kind"])
            return {"ok": False, "error": {"code": "agent_error", "message": repr(error)[:300]}, "data": {}}
        return {"ok": True, "error": None, "data": data}

    # -- telling ---------------------------------------------------------------------------------------------------

    def _announce(self, message: wire.Message) -> None:
        with self._order:
            if self._session is not None:
                self._session.say(message)

    def _bytes_ready(self) -> None:
        session = self._session
        if session is not None:
            session.poke()

    def _beat(self) -> None:
        while True:
            began = time.monotonic()
            try:
                self._announce({"type": "alive", **self._record.beat()})
                self._monitor.tick()
            except Exception:
                log.exception("heartbeat")  # a full or dying disk: no proof of life, but go on trying
            time.sleep(max(0.0, 1.0 - (time.monotonic() - began)))


def receive_request(connection: socket.socket) -> Tuple[Dict[str, Any], List[int]]:
    """One request line and the descriptors that came with it; raises ValueError."""
    fds = array.array("i")
    # Close-on-exec, or every container's processes would keep the SSH channel open.
    space, flags = socket.CMSG_SPACE(2 * fds.itemsize), socket.MSG_CMSG_CLOEXEC
    data, ancillary, _, _ = connection.recvmsg(_HANDSHAKE_BYTES, space, flags)
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    request = json.loads(data.decode())
    if not isinstance(request, dict):
        raise ValueError("a request must be an object")
    return request, list(fds)


def main(paths: Paths, version: str, program: List[str]) -> int:
    """Become the node's one daemon, or leave when there is one."""
    paths.make()
    lock = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    path = os.path.join(paths.record, "agent.log")
    file = logging.handlers.RotatingFileHandler(path, maxBytes=1 << 20, backupCount=1)
    logging.basicConfig(level=logging.INFO, handlers=[file], format="%(asctime)s %(levelname)s %(name)s %(message)s")
    log.info("version %s, python %s", version, sys.version.split()[0])
    daemon = Daemon(paths, version, program)
    if os.path.exists(paths.socket):
        os.unlink(paths.socket)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(paths.socket)
    listener.listen(16)
    daemon.serve(listener)
    return 0
