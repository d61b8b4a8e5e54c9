"""Hints: what is said to the portal, what comes back, and that nothing depends on them."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError, InvalidHandshake
from websockets.frames import Close

from cli import live
from cli.client import Client
from cli.config import ConfigStore, Profile
from cli.live import ANEW, Live
from tests.unit.cli.portal import FakePortal

DEADLINE_S = 10.0


class Connection:
    """A WebSocket whose frames a test puts in."""

    def __init__(self) -> None:
        self.sent: queue.Queue[dict[str, Any]] = queue.Queue()
        self.coming: queue.Queue[Any] = queue.Queue()
        self.close_code: int | None = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def send(self, text: str) -> None:
        self.sent.put(json.loads(text))

    def recv(self, timeout: float) -> Any:
        frame = self.coming.get(timeout=timeout)
        if isinstance(frame, int):
            self.close_code = frame
            raise ConnectionClosedError(Close(frame, ""), None)
        return frame if isinstance(frame, str) else json.dumps(frame)

    def close(self) -> None:
        self.coming.put(1000)

    def said(self) -> dict[str, Any]:
        """Returns the next frame that the client sent."""
        return self.sent.get(timeout=DEADLINE_S)


@pytest.fixture
def client(portal: FakePortal, tmp_path: Path) -> Client:
    """A signed-in client."""
    portal.token = 1
    profile = Profile(url="http://portal.test", access="access-1", refresh="refresh-1", expires_at=2e10)
    http = httpx.Client(base_url="http://portal.test/api/v1", transport=httpx.MockTransport(portal.handle))
    store = ConfigStore(tmp_path / "config.json")
    store.save("default", profile)
    return Client(store, "default", profile, http=http)


Opened = Callable[..., list[str]]


@pytest.fixture
def opens(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Makes the next connections be these (or fail so), and returns the tokens they were opened with."""

    def prepare(*connections: Connection | Exception) -> list[str]:
        tokens: list[str] = []
        waiting = list(connections)

        def connect(self: Live, token: str) -> Connection:
            tokens.append(token)
            one = waiting.pop(0) if waiting else OSError("no more")
            if isinstance(one, Exception):
                raise one
            return one

        monkeypatch.setattr(Live, "_connect", connect)
        monkeypatch.setattr(live, "BACKOFF_S", (0.001,))
        return tokens

    return prepare


def news(subject: Live, wanted: str) -> bool:
    """Waits until the wanted kind is told."""
    return any(wanted in subject.wait(1.0) for _ in range(int(DEADLINE_S)))


def test_hints_are_told_and_pings_answered(client: Client, opens: Opened) -> None:
    connection = Connection()
    opens(connection)
    with Live(client) as subject:
        subject.subscribe("job/1")
        assert connection.said() == {"subscribe": "job/1"}
        connection.coming.put({"type": "subscribed", "topic": "job/1", "seq": 3})
        assert news(subject, ANEW)
        connection.coming.put({"type": "hint", "topic": "job/1", "hint": {"kind": "log", "offset": 9}})
        assert news(subject, "log")
        connection.coming.put({"type": "hint", "topic": "job/1", "hint": {"kind": "event", "seq": 4}})
        assert news(subject, "event")
        connection.coming.put({"type": "refetch", "topic": "job/1"})
        assert news(subject, ANEW)
        connection.coming.put("no json")
        connection.coming.put({"type": "ping", "n": 7})
        answers = [connection.said(), connection.said()] if connection.sent.qsize() > 1 else [connection.said()]
        assert {"pong": 7} in answers


def test_subscriptions_live_on_after_a_break(client: Client, opens: Opened) -> None:
    first, second = Connection(), Connection()
    opens(first, OSError("refused"), InvalidHandshake("502"), second)
    with Live(client) as subject:
        subject.subscribe("job/1")
        assert first.said() == {"subscribe": "job/1"}
        first.coming.put(1006)
        assert second.said() == {"subscribe": "job/1"}


def test_an_ended_token_is_renewed(client: Client, opens: Opened, portal: FakePortal) -> None:
    first, second = Connection(), Connection()
    tokens = opens(first, second)
    with Live(client) as subject:
        subject.subscribe("job/1")
        first.said()
        first.coming.put(live.SIGN_IN_ENDED)
        second.said()
    assert tokens[:2] == ["access-1", "access-2"]


def test_an_ended_sign_in_stops_it_quietly(client: Client, opens: Opened, portal: FakePortal) -> None:
    first = Connection()
    opens(first)
    portal.token = 9
    with Live(client) as subject:
        subject.subscribe("job/1")
        first.said()
        first.coming.put(live.SIGN_IN_ENDED)
        assert subject._thread is not None
        subject._thread.join(timeout=DEADLINE_S)
        assert not subject._thread.is_alive()


def test_without_a_connection_it_is_time_to_poll(
    client: Client, opens: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens()
    monkeypatch.setattr(live, "POLL_S", 0.001)
    with Live(client) as subject:
        assert subject.wait() == set()
