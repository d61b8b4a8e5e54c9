"""Segments, hash, acknowledgements and what a killed agent leaves."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.agent import sha, spool
from workers.agent.files import write_atomic
from workers.agent.pump import LogPump, log_marker, open_fifo
from workers.agent.spool import Spool


def small(folder: Path, bound: int = 1 << 20) -> Spool:
    return Spool(str(folder / "log"), bound=bound, segment_bytes=1000)


def everything(one: Spool) -> bytes:
    data = b""
    while len(data) < one.length:
        data += one.read(len(data), 7_000)
    return data


@given(pieces=st.lists(st.binary(max_size=2500), max_size=12), reopen=st.sets(st.integers(0, 12)))
def test_bytes_and_hash_survive_reopening_anywhere(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], reopen: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    one = small(folder)
    for number, piece in enumerate(pieces):
        if number in reopen:
            one.close()
            one = small(folder)
        assert one.append(piece)
    data = b"".join(pieces)
    assert everything(one) == data
    assert one.sha256() == hashlib.sha256(data).hexdigest()
    one.close()


def test_acknowledged_segments_go_first_and_the_hash_stays_whole(tmp_path: Path) -> None:
    one = small(tmp_path, bound=3000)
    assert one.append(bytes(2999))
    assert one.append(b"x")
    assert not one.wait_for_room(0)
    one.ack(1999)
    assert one.wait_for_room(0)
    assert one.first == 1000
    with pytest.raises(ValueError, match="freed"):
        one.read(999, 1)
    assert one.append(b"y" * 500)
    one.close()
    again = small(tmp_path, bound=3000)
    assert (again.first, again.length) == (1000, 3500)
    assert again.sha256() == hashlib.sha256(bytes(2999) + b"x" + b"y" * 500).hexdigest()
    again.close()


def test_without_libcrypto_the_hash_is_right_or_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sha, "_LIBRARY", None)
    one = small(tmp_path, bound=3000)
    assert one.append(bytes(2500))
    one.close()
    again = small(tmp_path, bound=3000)
    assert again.append(bytes(400))
    again.ack(2900)
    assert again.append(bytes(600))
    assert again.wait_for_room(0)
    assert again.sha256() == hashlib.sha256(bytes(3500)).hexdigest()
    again.close()
    third = small(tmp_path, bound=3000)
    assert third.first > 0
    assert third.sha256() is None
    third.close()


def test_a_writer_waits_for_room_and_can_be_stopped(tmp_path: Path) -> None:
    one = small(tmp_path, bound=2000)
    stop = threading.Event()
    stop.set()
    assert not one.append(bytes(5000), stop=stop)
    assert one.length == 2000
    one.close()


def test_clear(tmp_path: Path) -> None:
    one = small(tmp_path)
    assert one.append(bytes(2500))
    one.clear()
    assert one.append(b"new")
    assert (one.first, one.length, one.sha256()) == (0, 3, hashlib.sha256(b"new").hexdigest())
    one.close()


def test_splice_takes_what_is_there_and_no_more_than_asked(tmp_path: Path) -> None:
    one = small(tmp_path)
    read, write = os.pipe2(os.O_NONBLOCK)
    assert one.splice_from(read, 100) == 0
    os.write(write, b"a" * 150)
    assert [one.splice_from(read, 100), one.splice_from(read, 100)] == [100, 50]
    assert everything(one) == b"a" * 150
    os.close(read)
    os.close(write)
    one.close()


def test_a_file_system_without_splice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoSplice:
        @staticmethod
        def splice(*_: object) -> int:
            return -1

    monkeypatch.setattr(spool, "_libc", NoSplice)
    monkeypatch.setattr("ctypes.get_errno", lambda: 22)
    one = small(tmp_path)
    read, write = os.pipe2(os.O_NONBLOCK)
    assert one.splice_from(read, 100) == 0
    os.write(write, b"abc")
    assert one.splice_from(read, 100) == 3
    assert everything(one) == b"abc"
    os.close(read)
    os.close(write)
    one.close()


def pump(tmp_path: Path, one: Spool, limit: int, data: bytes) -> LogPump:
    fifo = open_fifo(str(tmp_path / "fifo"))
    writer = os.open(tmp_path / "fifo", os.O_WRONLY)
    thread = LogPump(fifo, one, limit, lambda: None)
    thread.start()
    view = memoryview(data)
    while view:
        view = view[os.write(writer, view) :]
    os.close(writer)
    thread.finish()
    return thread


@pytest.mark.parametrize("extra", [0, 1, 5000])
def test_the_log_limit(tmp_path: Path, extra: int) -> None:
    one = small(tmp_path)
    data = os.urandom(4000 + extra)
    done = pump(tmp_path, one, 4000, data)
    marker = log_marker(4000) if extra else b""
    assert done.truncated is bool(extra)
    assert everything(one) == data[:4000] + marker
    one.close()


def test_a_marker_that_a_power_cut_cut_is_completed_once(tmp_path: Path) -> None:
    one = small(tmp_path)
    assert one.append(b"x" * 100 + log_marker(100)[:9])
    assert pump(tmp_path, one, 100, b"more").truncated
    assert pump(tmp_path, one, 100, b"").truncated
    assert everything(one) == b"x" * 100 + log_marker(100)
    one.close()


def test_a_pump_carries_all_bytes(tmp_path: Path) -> None:
    one = Spool(str(tmp_path / "log"), segment_bytes=100_000)
    data = os.urandom(3_000_000)
    assert not pump(tmp_path, one, 1 << 40, data).truncated
    assert everything(one) == data
    one.close()


def test_a_full_disk_holds_back_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = small(tmp_path)
    failures = [3]

    def full(path: str, data: bytes) -> None:
        if failures[0]:
            failures[0] -= 1
            raise OSError(28, "No space left on device")
        write_atomic(path, data)

    monkeypatch.setattr(spool, "write_atomic", full)
    data = os.urandom(3500)
    assert not pump(tmp_path, one, 1 << 40, data).truncated
    assert failures == [0]
    assert everything(one) == data
    assert one.sha256() == hashlib.sha256(data).hexdigest()
    one.close()
