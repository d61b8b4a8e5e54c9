"""The agent's side of one link: a reader and a writer thread over the descriptors that attach handed over."""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
import time
import uuid
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Tuple

from workers.agent import wire
from workers.agent.process import Wake, wait_readable
from workers.agent.spool import Spool

log = logging.getLogger("berth.session")

_SILENT_S = 30.0
_QUEUE_FRAMES = 20_000
_READ_BYTES = 65536

Streams = Callable[[], Iterator[Tuple[str, int, Spool]]]


class Session:
    """Owns its descriptors and the attach process's connection until close()."""

    def __init__(self, receive: int, send: int, keeper: socket.socket, streams: Streams) -> None:
        self._receive = receive
        self._send = send
        self._keeper = keeper
        self._streams = streams
        self._condition = threading.Condition()
        self._queue: Deque[bytes] = deque()
        self._credit = 0
        self._sent: Optional[Dict[Tuple[str, int], int]] = None
        self._next = 0
        self._closed = threading.Event()
        self._wake = Wake()
        self.token: Optional[int] = None
        for fd in (receive, send):
            os.set_blocking(fd, False)

    def open(self, marker: bytes) -> None:
        """Send the line that ends the noise."""
        self._queue.append(marker)

    def run(self, on_message: Callable[["Session", wire.Message], None]) -> None:
        """Read until the link ends; the writer has its own thread."""
        writer = threading.Thread(target=self._write_all, name="link-writer", daemon=True)
        writer.start()
        try:
            self._read_all(on_message)
        except wire.WireError as error:
            self.say({"type": "error", "code": error.code, "message": str(error)})
            self.close()
        except Exception:
            log.exception("link")
            self.close()
        writer.join()
        self._wake.close()
        for fd in (self._receive, self._send):
            os.close(fd)
        self._keeper.close()  # attach sees this and ends, and with it the channel

    def say(self, message: wire.Message) -> None:
        """Queue a message; a link whose peer does not read is closed instead of growing."""
        frame = wire.json_frame(message)
        with self._condition:
            if len(self._queue) > _QUEUE_FRAMES:
                self._closed.set()
            elif not (message["type"] in ("alive", "samples") and len(self._queue) > 50):
                self._queue.append(frame)
            self._condition.notify_all()

    def poke(self) -> None:
        """There may be new bytes to send."""
        with self._condition:
            self._condition.notify_all()

    def grant(self, count: int) -> None:
        """The portal takes `count` more bytes of data."""
        with self._condition:
            self._credit += count
            self._condition.notify_all()

    def begin_bytes(self, offsets: Dict[Tuple[str, int], int]) -> None:
        """Send data from these offsets on."""
        with self._condition:
            self._sent = dict(offsets)
            self._condition.notify_all()

    def close(self) -> None:
        """End the link after what is queued; safe from any thread."""
        self._closed.set()
        with self._condition:
            self._condition.notify_all()
        self._wake.set()

    # -- threads ---------------------------------------------------------------------------------------------------

    def _read_all(self, on_message: Callable[["Session", wire.Message], None]) -> None:
        decoder, heard = wire.Decoder(), time.monotonic()
        while not self._closed.is_set():
            ready = wait_readable([self._receive, self._wake.fileno()], 5.0)
            self._wake.clear()
            if self._receive in ready:
                data = os.read(self._receive, _READ_BYTES)
                if not data:
                    self.close()
                heard = time.monotonic()
                for frame in decoder.feed(data):
                    if isinstance(frame, wire.ByteFrame):
                        raise wire.WireError("frame_type", "data only travels up")
                    on_message(self, frame)
            elif time.monotonic() - heard > _SILENT_S:
                self.close()  # the portal pings every few seconds: it is gone

    def _write_all(self) -> None:
        try:
            while True:
                frame = self._next_frame()
                if frame is None or not self._write(frame):
                    break
        except Exception:
            log.exception("link writer")
        self.close()

    def _next_frame(self) -> Optional[bytes]:
        """The next frame, control before data; None when the link has ended."""
        while True:
            with self._condition:
                if self._queue:
                    return self._queue.popleft()
                if self._closed.is_set():
                    return None
                source = self._next_source()
                if source is None:
                    self._condition.wait(1.0)
                    continue
                attempt, stream, spool, offset = source
                count = min(wire.DATA_CHUNK, self._credit)
            data = self._data(spool, offset, count)
            with self._condition:
                self._credit -= len(data)
                if self._sent is not None:
                    self._sent[attempt, stream] = offset + len(data)
            if data:
                return wire.bytes_frame(uuid.UUID(attempt), stream, offset, data)

    def _next_source(self) -> Optional[Tuple[str, int, Spool, int]]:
        """A stream with bytes to send, each in its turn."""
        if self._sent is None or self._credit <= 0:
            return None
        waiting: List[Tuple[str, int, Spool, int]] = []
        for attempt, stream, spool in self._streams():
            offset = self._sent.get((attempt, stream), 0)
            # Below the first: freed because a portal had them durably, and this one has not. It must not get a gap.
            if spool.first <= offset < spool.length:
                waiting.append((attempt, stream, spool, offset))
        if not waiting:
            return None
        self._next += 1
        return waiting[self._next % len(waiting)]

    @staticmethod
    def _data(spool: Spool, offset: int, count: int) -> bytes:
        try:
            return spool.read(offset, count)
        except (OSError, ValueError):
            return b""  # freed, cleared or removed between the look and the read

    def _write(self, frame: bytes) -> bool:
        view = memoryview(frame)
        poller = select.poll()
        poller.register(self._send, select.POLLOUT)
        patience = 2  # seconds to get the last words out of a closed link
        while view:
            if not poller.poll(1000):
                patience -= self._closed.is_set()
                if patience < 0:
                    return False
                continue
            try:
                view = view[os.write(self._send, view) :]
            except BlockingIOError:
                continue
            except OSError:
                return False
        return True


def offsets_of(message: Dict[str, Any]) -> Dict[Tuple[str, int], int]:
    """The offsets of an `acked` message; raises WireError."""
    found: Dict[Tuple[str, int], int] = {}
    for attempt, streams in wire.member(message, "offsets", dict).items():
        if not isinstance(streams, dict):
            raise wire.WireError("frame_field", "acked offsets must be objects")
        for stream, offset in streams.items():
            if not str(stream).isdigit() or isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
                raise wire.WireError("frame_field", "an acked offset must be a number")
            found[attempt, int(stream)] = offset
    return found
