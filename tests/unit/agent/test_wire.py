"""Frames: round trips, and garbage that raises nothing but the named error."""

from __future__ import annotations

import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.agent import wire

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
_messages = st.builds(
    lambda kind, rest: {**rest, "type": kind}, st.text(), st.dictionaries(st.text(), _json, max_size=5)
)
_bytes = st.builds(wire.ByteFrame, st.uuids(), st.integers(0, 255), st.integers(0, 2**64 - 1), st.binary(max_size=2000))


def encode(frame: wire.Frame) -> bytes:
    return wire.bytes_frame(*frame) if isinstance(frame, wire.ByteFrame) else wire.json_frame(frame)


@given(st.lists(_messages | _bytes, max_size=6), st.integers(1, 50))
def test_round_trip_however_it_is_cut(frames: list[wire.Frame], step: int) -> None:
    data = b"".join(encode(frame) for frame in frames)
    decoder = wire.Decoder()
    seen = [frame for at in range(0, len(data), step) for frame in decoder.feed(data[at : at + step])]
    assert seen == frames


@given(st.binary(max_size=300), st.booleans())
def test_garbage_raises_only_the_named_error(garbage: bytes, framed: bool) -> None:
    data = struct.pack(">I", len(garbage)) + garbage if framed else garbage
    codes = []
    try:
        frames = wire.Decoder().feed(data)
    except wire.WireError as error:
        frames = []
        codes.append(error.code)
    assert set(codes) <= {"frame_too_long", "frame_type", "frame_json", "frame_field"}
    assert all(isinstance(frame, wire.ByteFrame | dict) for frame in frames)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (struct.pack(">I", 0), "frame_too_long"),
        (struct.pack(">I", wire.MAX_FRAME + 1), "frame_too_long"),
        (struct.pack(">I", 1) + b"X", "frame_type"),
        (struct.pack(">I", 3) + b"J[]", "frame_field"),
        (struct.pack(">I", 3) + b"J\xff{", "frame_json"),
        (struct.pack(">I", 100001) + b"J" + b"[" * 100000, "frame_json"),
        (struct.pack(">I", 4) + b"Babc", "frame_field"),
    ],
)
def test_each_kind_of_garbage_has_its_name(data: bytes, code: str) -> None:
    with pytest.raises(wire.WireError) as caught:
        wire.Decoder().feed(data)
    assert caught.value.code == code


def test_a_message_too_long_is_not_sent() -> None:
    with pytest.raises(wire.WireError, match="frame_too_long"):
        wire.json_frame({"type": "op", "x": "a" * wire.MAX_FRAME})


@pytest.mark.parametrize(("value", "kind"), [("1", int), (True, int), (None, str), (1.5, int), ([], dict)])
def test_members_are_checked(value: object, kind: type) -> None:
    with pytest.raises(wire.WireError, match="needs n as"):
        wire.member({"type": "ack", "n": value}, "n", kind)


def test_marker() -> None:
    assert wire.marker("abc", "0123") == b"BERTH abc 0123\n"
    assert wire.bytes_frame(uuid.UUID(int=1), 0, 0, b"")[4:5] == b"B"
