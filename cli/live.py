"""Hints over the WebSocket: they say that something is new, the caller then reads it over HTTP.

The connection lives in a thread, comes back by itself, and is never needed for correctness: `wait` ends after a
while without hints too, so that the caller polls.
"""

import contextlib
import json
import threading
from typing import Any
from urllib.parse import urlsplit

from cli import __version__
from cli.client import Client, tls_context
from cli.errors import CliError, NotSignedInError

POLL_S = 2.0
POLL_CONNECTED_S = 5.0  # hints may be lost, they are hints
SILENCE_S = 45.0  # the portal pings each 20 s
BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0)
SIGN_IN_ENDED = 4401
ANEW = "anew"


class Live:
    """Subscriptions of one person; `wait` returns the kinds of what is new."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._topics: set[str] = set()
        self._known: dict[str, int | None] = {}
        self._news: set[str] = set()
        self._changed = threading.Condition()
        self._connection: Any = None
        self._closed = threading.Event()
        self._served = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Live":
        self._thread = threading.Thread(target=self._run, name="berth-live", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closed.set()
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()
        if self._thread is not None:
            self._thread.join(timeout=2.0)

    def subscribe(self, topic: str, *, known_seq: int | None = None) -> None:
        """Asks for hints of a topic, on this and every later connection.

        Once it is served, `wait` says `anew`, unless the object's newest event is still `known_seq`.
        """
        with self._changed:
            self._topics.add(topic)
            self._known[topic] = known_seq
            connection = self._connection
        if connection is not None:
            with contextlib.suppress(Exception):  # a broken connection is opened again, with all topics
                connection.send(json.dumps({"subscribe": topic}))

    def wait(self, longest: float | None = None) -> set[str]:
        """Returns what is new: `event`, `log`, `sample`, `anew` (read everything); empty when it is time to poll."""
        with self._changed:
            limit = POLL_CONNECTED_S if self._connection is not None else POLL_S
            self._changed.wait_for(lambda: self._news, timeout=limit if longest is None else min(limit, longest))
            news, self._news = self._news, set()
        return news

    def _tell(self, kind: str) -> None:
        with self._changed:
            self._news.add(kind)
            self._changed.notify_all()

    def _run(self) -> None:
        failures, renew = 0, False
        while not self._closed.is_set():
            self._served = False
            try:
                renew = self._one_connection(renew) == SIGN_IN_ENDED
                failures = 0 if self._served else failures + 1
            except NotSignedInError:
                return  # the caller meets the same over HTTP and tells it
            except (OSError, CliError, _websocket_error()):
                failures += 1
            self._closed.wait(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])

    def _one_connection(self, renew: bool) -> int:
        """Serves one connection until it ends; returns its close code."""
        from websockets.exceptions import ConnectionClosed

        with self._connect(self._client.access_token(renew=renew)) as connection:
            with self._changed:
                self._connection = connection
                topics = sorted(self._topics)
            try:
                for topic in topics:
                    connection.send(json.dumps({"subscribe": topic}))
                while not self._closed.is_set():
                    self._take(connection, connection.recv(timeout=SILENCE_S))
            except ConnectionClosed:
                return connection.close_code or 0
            finally:
                with self._changed:
                    self._connection = None
        return 0

    def _connect(self, token: str) -> Any:
        from websockets.sync.client import connect

        parts = urlsplit(self._client.profile.url)
        scheme = "wss" if parts.scheme == "https" else "ws"
        return connect(
            f"{scheme}://{parts.netloc}{parts.path}/ws/live",
            additional_headers={"Authorization": f"Bearer {token}"},
            user_agent_header=f"berth-cli/{__version__}",
            ssl=tls_context(self._client.profile),
            compression=None,
            open_timeout=10,
            close_timeout=0.5,
        )

    def _take(self, connection: Any, message: str | bytes) -> None:
        try:
            frame = json.loads(message)
        except ValueError:
            return
        kind = frame.get("type")
        if kind == "ping":
            connection.send(json.dumps({"pong": frame.get("n")}))
        elif kind == "hint":
            self._tell(str(frame.get("hint", {}).get("kind", "event")))
        elif kind in ("subscribed", "refetch", "error"):
            self._served = True
            known = self._known.pop(str(frame.get("topic")), None) if kind == "subscribed" else None
            if known is None or frame.get("seq") != known:
                self._tell(ANEW)


def _websocket_error() -> type[Exception]:
    from websockets.exceptions import WebSocketException

    return WebSocketException
