"""The portal's end of one node link."""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

from workers.agent import wire
from workers.link.types import Alive, Hello, LinkHandler, Op, Result, Samples, Status
from workers.nodeops.commands import attach_command
from workers.ssh.types import ByteStream, SshError, SshTimeout, Transport

log = logging.getLogger("berth.link")

WINDOW_BYTES = 8 << 20
_NOISE_BYTES = 256 * 1024
_RECEIVE_BYTES = 4 << 20  # the whole window of the channel: what is left in it is moved at each read
_ATTACH_S = 30.0
_KERNEL_LINES, _KERNEL_LINE = 64, 300
_STATUS_MEMBERS = frozenset({"type", "attempt", "seq", "state", "at_mono_ns", "at_utc_ns", "boot_id"})


class LinkClosedError(SshError):
    """The link is not open, so nothing can be sent on it: send it on the next one."""

    code = "link_closed"


class AgentLink:
    """Runs one attachment; make a new one to connect again."""

    def __init__(
        self,
        transport: Transport,
        *,
        version: str,
        link_token: int,
        handler: LinkHandler,
        ping_interval_s: float = 2,
        dead_after_s: float = 8,
        command: Callable[[str, str], str] = attach_command,
    ) -> None:
        self._transport = transport
        self._version = version
        self._token = link_token
        self._handler = handler
        self._ping_interval_s = ping_interval_s
        self._dead_after_s = dead_after_s
        self._command = command
        self._send_lock = threading.Lock()
        self._stream: ByteStream | None = None
        self._open = threading.Event()
        self._closing = threading.Event()
        self._reason = ""
        self._consumed = 0
        self._heard = 0.0
        self._pings = 0
        self._handlers: dict[str, Callable[[wire.Message], None]] = {
            "hello": self._on_hello,
            "result": self._on_result,
            "status": self._on_status,
            "samples": self._on_samples,
            "alive": self._on_alive,
            "error": self._on_error,
        }

    def run(self) -> None:
        """Attach and serve in this thread until the link is closed; the reason goes to on_closed."""
        try:
            self._serve()
        except SshError as error:
            self._note(f"{error.code}: {error}")
        except wire.WireError as error:
            self._note(str(error))
        except Exception as error:
            log.exception("a link's handler failed")
            self._note(f"handler_failed: {type(error).__name__}")
        finally:
            self._open.clear()
            if self._stream is not None:
                self._stream.close()
        try:
            self._handler.on_closed(self._reason or "closed")
        except Exception:
            log.exception("on_closed failed")

    def send_op(self, op: Op) -> None:
        """Send an operation; raises LinkClosedError (then it was perhaps not sent: send it on the next link)."""
        members = {"id": op.id, "token": op.token, "kind": op.kind, "args": dict(op.args), "deadline_s": op.deadline_s}
        self._say({"type": "op", **members})

    def ack(self, attempt_id: UUID, stream: int, offset: int) -> None:
        """Tell the agent that the bytes below `offset` are durable; needless, so harmless, on a closed link."""
        with contextlib.suppress(LinkClosedError):
            self._say({"type": "ack", "attempt": str(attempt_id), "stream": stream, "offset": offset})

    def ack_status(self, attempt_id: UUID, seq: int) -> None:
        """Tell the agent that the statuses up to `seq` are durable, after on_status said False."""
        with contextlib.suppress(LinkClosedError):
            self._say({"type": "status_ack", "attempt": str(attempt_id), "seq": seq})

    def ack_op(self, op_id: str) -> None:
        """Tell the agent that a result is durable, after on_result said False."""
        with contextlib.suppress(LinkClosedError):
            self._say({"type": "op_ack", "id": op_id})

    def close(self) -> None:
        """End the link; run() returns soon after."""
        self._end("closed by the portal")

    # -- run's thread ----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        nonce = secrets.token_hex(16)
        stream = self._transport.open_stream(self._command(self._version, nonce))
        self._stream = stream
        rest = self._skip_noise(stream, wire.marker(nonce, self._version))
        hello = {"type": "hello", "protocol": wire.PROTOCOL, "link_token": self._token, "utc_ns": time.time_ns()}
        self._send(wire.json_frame(hello))
        stream.set_deadline(min(self._ping_interval_s, 1.0))
        decoder, self._heard, pinged = wire.Decoder(), time.monotonic(), time.monotonic()
        self._take(decoder.feed(rest))
        while not self._closing.is_set():
            data = self._receive(stream)
            if data == b"":
                self._note(f"the agent ended the link{self._last_words(stream)}")
                return
            if data is not None:
                self._heard = time.monotonic()
                self._take(decoder.feed(data))
            if time.monotonic() - self._heard > self._dead_after_s:
                self._note(f"silent: nothing heard for {self._dead_after_s:g} s")
                return
            if time.monotonic() - pinged > self._ping_interval_s:
                pinged = time.monotonic()
                self._pings += 1
                self._send(wire.json_frame({"type": "ping", "n": self._pings}))

    def _receive(self, stream: ByteStream) -> bytes | None:
        """Bytes, b"" at the end, None when there is nothing yet."""
        try:
            return stream.recv(_RECEIVE_BYTES)
        except SshTimeout:
            return None

    def _skip_noise(self, stream: ByteStream, marker: bytes) -> bytes:
        """Read up to the marker and return what came after it."""
        stream.set_deadline(_ATTACH_S)
        deadline, seen = time.monotonic() + _ATTACH_S, b""
        while marker not in seen:
            data = stream.recv(1 << 16)
            if not data:
                raise wire.WireError("no_agent", f"the agent did not start{self._last_words(stream)}")
            seen += data
            if len(seen) > _NOISE_BYTES or time.monotonic() > deadline:
                raise wire.WireError("noise", "the login shell talks and talks, and no agent answers")
        return seen.split(marker, 1)[1]

    @staticmethod
    def _last_words(stream: ByteStream) -> str:
        words = stream.last_words[-300:]
        return f": {words}" if words else ""

    def _take(self, frames: list[wire.Frame]) -> None:
        for frame in frames:
            if isinstance(frame, wire.ByteFrame):
                self._on_bytes(frame)
            else:
                handle = self._handlers.get(frame["type"])
                if handle is not None:
                    handle(frame)

    def _on_bytes(self, frame: wire.ByteFrame) -> None:
        if not self._open.is_set():
            raise wire.WireError("frame_type", "data before the hello")
        durable = self._handler.on_bytes(frame.attempt, frame.stream, frame.offset, frame.data)
        if durable is not None:
            self.ack(frame.attempt, frame.stream, durable)
        self._consumed += len(frame.data)
        if self._consumed >= WINDOW_BYTES // 4:
            self._say({"type": "credit", "bytes": self._consumed})
            self._consumed = 0

    def _on_hello(self, message: wire.Message) -> None:
        if wire.member(message, "protocol", int) != wire.PROTOCOL:
            raise wire.WireError(
                "protocol", f"the agent speaks protocol {message['protocol']}: install this portal's agent"
            )
        attempts = wire.member(message, "attempts", list)
        if not all(isinstance(one, dict) and isinstance(one.get("attempt"), str) for one in attempts):
            raise wire.WireError("frame_field", "hello.attempts must hold objects with an attempt")
        hash_ = message.get("inventory_hash")
        hello = Hello(
            protocol=wire.PROTOCOL,
            version=wire.member(message, "version", str),
            epoch=wire.member(message, "epoch", str),
            inventory_hash=hash_ if isinstance(hash_, str) else None,
            attempts=tuple(attempts),
            **_clocks(message),
        )
        self._open.set()  # operations may go out from now on, also from within on_hello
        acked = self._handler.on_hello(hello)
        offsets = {attempt: {str(n): offset for n, offset in streams.items()} for attempt, streams in acked.items()}
        self._say({"type": "acked", "offsets": offsets})
        self._say({"type": "credit", "bytes": WINDOW_BYTES})

    def _on_result(self, message: wire.Message) -> None:
        error = message.get("error")
        result = Result(
            id=wire.member(message, "id", str),
            token=wire.member(message, "token", int),
            ok=wire.member(message, "ok", bool),
            error=error if isinstance(error, dict) else None,
            data=wire.member(message, "data", dict),
        )
        if self._handler.on_result(result):
            self.ack_op(result.id)

    def _on_status(self, message: wire.Message) -> None:
        attempt = _attempt(message)
        status = Status(
            attempt_id=attempt,
            seq=wire.member(message, "seq", int),
            state=wire.member(message, "state", str),
            at_mono_ns=wire.member(message, "at_mono_ns", int),
            at_utc_ns=wire.member(message, "at_utc_ns", int),
            boot_id=wire.member(message, "boot_id", str),
            data={name: value for name, value in message.items() if name not in _STATUS_MEMBERS},
        )
        if self._handler.on_status(status):
            self.ack_status(attempt, status.seq)

    def _on_samples(self, message: wire.Message) -> None:
        gpus = wire.member(message, "gpus", list)
        error = message.get("nvml_error")
        readings = tuple(gpu for gpu in gpus if isinstance(gpu, dict))
        kernel = message.get("kernel")
        lines = tuple(str(line)[:_KERNEL_LINE] for line in kernel[:_KERNEL_LINES]) if isinstance(kernel, list) else ()
        nvml_error = error if isinstance(error, str) else None
        self._handler.on_samples(Samples(gpus=readings, nvml_error=nvml_error, kernel=lines, **_clocks(message)))

    def _on_alive(self, message: wire.Message) -> None:
        self._handler.on_alive(Alive(**_clocks(message)))

    def _on_error(self, message: wire.Message) -> None:
        raise wire.WireError(wire.member(message, "code", str), f"said by the agent: {message.get('message')}"[:300])

    # -- any thread ------------------------------------------------------------------------------------------------

    def _say(self, message: wire.Message) -> None:
        if not self._open.is_set() or self._closing.is_set():
            raise LinkClosedError("the link to the node is not open")
        try:
            self._send(wire.json_frame(message))
        except SshError as error:
            # Perhaps half a frame is out: nothing sensible can follow on this stream.
            self._end(f"{error.code}: {error}")
            raise LinkClosedError(str(error)) from error

    def _send(self, frame: bytes) -> None:
        with self._send_lock:
            if self._stream is None:
                raise LinkClosedError("the link to the node is not open")
            self._stream.send(frame)

    def _end(self, reason: str) -> None:
        self._note(reason)
        self._closing.set()
        if self._stream is not None:
            self._stream.close()

    def _note(self, reason: str) -> None:
        self._reason = self._reason or reason


def _clocks(message: wire.Message) -> dict[str, Any]:
    return {
        "mono_ns": wire.member(message, "mono_ns", int),
        "utc_ns": wire.member(message, "utc_ns", int),
        "boot_id": wire.member(message, "boot_id", str),
    }


def _attempt(message: wire.Message) -> UUID:
    try:
        return UUID(wire.member(message, "attempt", str))
    except ValueError:
        raise wire.WireError("frame_field", "an attempt must be a UUID") from None
