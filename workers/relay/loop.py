"""The relay's loop: LISTEN wakes it, a sweep each second heals what a wake may miss."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

import psycopg
import structlog
from django.db import connection, connections

from apps.core.models import OUTBOX_CHANNEL
from workers.db import borrowed_connection
from workers.relay.outbox import drain
from workers.relay.sweeps import sweep_all

log = structlog.get_logger(__name__)

SWEEP_EVERY_S = 1.0
RETRY_S = 0.5


class Relay:
    """One relay; several may run, claims keep them apart."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    def stop(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Ends the loop after its current step; a signal handler too."""
        self._stop.set()

    def run(self) -> None:
        """Runs until stopped; a lost database or broker is waited for."""
        log.info("relay.started")
        while not self._stop.is_set():
            try:
                with self._listener() as listener:
                    self._loop(listener)
            except Exception as error:
                log.warning(
                    "relay.waits", error=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
                )
                with contextlib.suppress(Exception):
                    connections.close_all()
                self._stop.wait(RETRY_S)
        log.info("relay.stopped")

    @contextlib.contextmanager
    def _listener(self) -> Iterator["psycopg.Connection[tuple[object, ...]]"]:
        parameters = connection.get_connection_params()
        for name in ("context", "prepare_threshold", "pool", "cursor_factory", "server_side_binding"):
            parameters.pop(name, None)
        with psycopg.connect(**parameters, autocommit=True, connect_timeout=5) as listener:
            listener.execute(f"LISTEN {OUTBOX_CHANNEL}")
            yield listener

    def _loop(self, listener: "psycopg.Connection[tuple[object, ...]]") -> None:
        next_sweep = time.monotonic()
        while not self._stop.is_set():
            with borrowed_connection():
                while drain():
                    pass
                if time.monotonic() >= next_sweep:
                    next_sweep = time.monotonic() + SWEEP_EVERY_S
                    sweep_all()
            for _ in listener.notifies(timeout=max(0.01, next_sweep - time.monotonic()), stop_after=1):
                pass


def main() -> None:
    """Runs a relay until SIGTERM or SIGINT."""
    relay = Relay()
    signal.signal(signal.SIGTERM, relay.stop)
    signal.signal(signal.SIGINT, relay.stop)
    relay.run()
