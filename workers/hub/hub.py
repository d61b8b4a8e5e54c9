"""Which links this process owns: leases renewed each second, free ones taken, lost ones let go."""

import os
import secrets
import threading
import time
import uuid
from collections.abc import Callable

import structlog

from apps.core.clock import utc_now
from apps.fleet.services import link_acquire, links_release_of, links_renew, node_alive, operation_claim
from workers.db import borrowed_connection
from workers.hub.session import NodeSession

log = structlog.get_logger(__name__)

TICK_S = 1.0
ALIVE_EVERY_S = 3.0
MAX_LINKS = 1000
FLUSH_EVERY_S = 0.05


class Hub:
    """Keeps one session per owned node; tasks reach a node through it."""

    def __init__(self, *, name: str) -> None:
        self.name = name
        self.owner = f"{name}#{os.getpid()}-{secrets.token_hex(4)}"
        self._sessions: dict[uuid.UUID, NodeSession] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begins to own links; what an earlier process of this name held is free at once."""
        for target in (self._keep_links, self._keep_flushed):
            thread = threading.Thread(target=target, name=f"hub{target.__name__}", daemon=True)
            thread.start()
            self._threads.append(thread)
        log.info("hub.started", owner=self.owner)

    def stop(self) -> None:
        """Closes all links and frees their leases, so that another worker takes over at once."""
        self._stopping.set()
        self._wake.set()
        for thread in self._threads:
            thread.join(5)
        for session in self._all():
            session.close("the worker stops")
        for session in self._all():
            session.join(5)

    def kick(self) -> None:
        """Looks for free links now."""
        self._wake.set()

    def run_operation(self, operation_id: uuid.UUID) -> None:
        """Sends an operation over its node's link, if this process has it."""
        now = utc_now()
        with borrowed_connection():
            claim = operation_claim(operation_id=operation_id, nodes=self._sessions, now=now)
        session = self._sessions.get(claim.node_id) if claim else None
        if claim is not None and session is not None:
            session.send_operation(claim, now)

    def _all(self) -> list[NodeSession]:
        with self._lock:
            return list(self._sessions.values())

    def _keep_links(self) -> None:
        next_alive = 0.0
        self._until_done(lambda: links_release_of(name=self.name))
        while not self._stopping.is_set():
            try:
                with borrowed_connection():
                    self._tick()
                    if time.monotonic() >= next_alive:
                        next_alive = time.monotonic() + ALIVE_EVERY_S
                        self._note_alive()
            except Exception as error:  # a lost database is waited for; leases run out meanwhile, as they should
                log.warning("hub.waits", error=f"{type(error).__name__}: {error}")
            self._wake.wait(TICK_S)
            self._wake.clear()

    def _until_done(self, act: Callable[[], None]) -> None:
        """Repeats until the database takes it."""
        while not self._stopping.is_set():
            try:
                with borrowed_connection():
                    act()
                return
            except Exception as error:
                log.warning("hub.waits", error=f"{type(error).__name__}: {error}")
                self._stopping.wait(TICK_S)

    def _tick(self) -> None:
        sessions = {s.node_id: s for s in self._all()}
        kept = links_renew(owner=self.owner, tokens={n: s.token for n, s in sessions.items()})
        for node_id, session in sessions.items():
            if session.ended:
                with self._lock:
                    self._sessions.pop(node_id, None)
            elif node_id not in kept:
                session.close("another worker owns this node now")
        for grant in link_acquire(owner=self.owner, limit=MAX_LINKS - len(self._sessions)):
            session = NodeSession(grant)
            with self._lock:
                self._sessions[grant.node_id] = session
            session.start()

    def _note_alive(self) -> None:
        heard = {s.node_id: s.token for s in self._all() if s.take_alive()}
        node_alive(tokens=heard, now=utc_now())

    def _keep_flushed(self) -> None:
        while not self._stopping.wait(FLUSH_EVERY_S):
            for session in self._all():
                try:
                    session.flush_late()
                except Exception as error:
                    log.warning("hub.flush_failed", node=session.name, error=f"{type(error).__name__}: {error}")
                    session.close("bytes could not be kept")
