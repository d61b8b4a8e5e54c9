"""Frames of the node link (docs/protocol.md), shared by the agent and the portal's side."""

from __future__ import annotations

import json
import struct
import uuid
from typing import Any, Dict, List, NamedTuple, Union

PROTOCOL = 1
MAX_FRAME = 1 << 20
DATA_CHUNK = 256 * 1024  # small enough that a control frame never waits long behind data
STREAM_LOG = 0
STREAM_OUTPUTS = 1

_LENGTH = struct.Struct(">I")
_BYTES_HEAD = struct.Struct(">16sBQ")
_JSON = ord("J")
_BYTES = ord("B")

Message = Dict[str, Any]


class WireError(Exception):
    """The other side broke the protocol; `code` is one of those in docs/protocol.md."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class ByteFrame(NamedTuple):
    """A piece of an attempt's stream."""

    attempt: uuid.UUID
    stream: int
    offset: int
    data: bytes


Frame = Union[Message, ByteFrame]


def json_frame(message: Message) -> bytes:
    """Encode a JSON frame; raises WireError when it is too long."""
    payload = json.dumps(message, separators=(",", ":")).encode()
    if len(payload) + 1 > MAX_FRAME:
        raise WireError("frame_too_long", f"a {message.get('type')} message of {len(payload)} bytes")
    return _LENGTH.pack(len(payload) + 1) + b"J" + payload


def bytes_frame(attempt: uuid.UUID, stream: int, offset: int, data: bytes) -> bytes:
    """Encode a data frame."""
    head = _BYTES_HEAD.pack(attempt.bytes, stream, offset)
    return _LENGTH.pack(1 + len(head) + len(data)) + b"B" + head + data


def marker(nonce: str, version: str) -> bytes:
    """The line that ends the login shell's noise."""
    return f"BERTH {nonce} {version}\n".encode()


def member(message: Message, name: str, kind: type) -> Any:
    """A member of a message, checked for its type; raises WireError(frame_field)."""
    value = message.get(name)
    # bool is an int to Python but not to the protocol
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise WireError("frame_field", f"{message.get('type')!r:.40} needs {name} as {kind.__name__}")
    return value


class Decoder:
    """Cuts a byte stream into frames; after a WireError it must not be fed again."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> List[Frame]:
        """Return the frames completed by `data`; raises WireError."""
        self._buffer += data
        frames: List[Frame] = []
        begin, view = 0, memoryview(self._buffer)
        try:
            while len(view) - begin >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(view, begin)
                if not 1 <= length <= MAX_FRAME:
                    raise WireError("frame_too_long", f"a frame says it has {length} bytes")
                body, end = begin + _LENGTH.size, begin + _LENGTH.size + length
                if len(view) < end:
                    break
                frames.append(_decode(view[body], view[body + 1 : end]))
                begin = end
        finally:
            view.release()
        del self._buffer[:begin]  # once for all frames: each time moves everything that follows
        return frames


def _decode(kind: int, payload: memoryview) -> Frame:
    if kind == _JSON:
        return _decode_json(bytes(payload))
    if kind != _BYTES:
        raise WireError("frame_type", f"unknown frame type {kind}")
    if len(payload) < _BYTES_HEAD.size:
        raise WireError("frame_field", "a data frame without its head")
    attempt, stream, offset = _BYTES_HEAD.unpack_from(payload)
    return ByteFrame(uuid.UUID(bytes=attempt), stream, offset, bytes(payload[_BYTES_HEAD.size :]))


def _decode_json(payload: bytes) -> Message:
    try:
        message = json.loads(payload.decode())
    except (ValueError, RecursionError) as error:
        raise WireError("frame_json", f"not JSON: {error}"[:200]) from None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise WireError("frame_field", "a message must be an object with a type")
    return message
