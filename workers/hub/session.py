"""One node's connection under one lease: connect, set up the agent, speak until it ends."""

import datetime as dt
import threading
import uuid

import structlog

from apps.core.clock import utc_now
from apps.core.failpoints import failpoint
from apps.fleet.choices import NodeState, OperationKind
from apps.fleet.selectors import node_state
from apps.fleet.services import (
    StaleLink,
    link_failed,
    link_release,
    operation_claim,
    portal_key_private,
    portal_key_public,
    preflight_record,
)
from apps.fleet.types import LinkGrant, OperationClaim
from apps.storage.blobs import blob_chunks
from apps.storage.types import FileRef
from workers import points
from workers.agent.build import built_agent
from workers.db import borrowed_connection
from workers.hub.reports import Reports
from workers.link import AgentLink
from workers.link.types import Hello, Op
from workers.nodeops import NodeOpError, forget_links, install_agent, install_public_key, preflight, put_file
from workers.ssh import HostKey, SshError, SshTarget, Transport, connect

log = structlog.get_logger(__name__)

RETRY_S = 2.0
ENROL_RETRY_S = 10.0
FILE_TIMEOUT_S = 3600.0


class PreflightFailed(Exception):
    """The node can't be taken into service as it is."""


class NodeSession(Reports):
    """A thread that lives as long as the link; the hub makes a new session for a new try."""

    def __init__(self, grant: LinkGrant) -> None:
        super().__init__(grant, self)
        self._grant = grant
        self.node_id = grant.node_id
        self.name = grant.name
        self.token = grant.token
        self._link: AgentLink | None = None
        self._transport: Transport | None = None
        self._closing = ""
        self._greeted = False
        self._closed_because = ""
        self._thread = threading.Thread(target=self._run, name=f"node-{grant.name}", daemon=True)

    # -- the hub's side ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to connect."""
        self._thread.start()

    @property
    def ended(self) -> bool:
        """True once the thread has nothing more to do."""
        return not self._thread.is_alive()

    def close(self, reason: str) -> None:
        """Ends the session soon, from any thread."""
        self._closing = reason
        for part in (self._link, self._transport):
            if part is not None:
                part.close()

    def join(self, timeout_s: float) -> None:
        """Waits for the thread."""
        self._thread.join(timeout_s)

    def take_alive(self) -> bool:
        """Says whether the node gave a sign of life since the last call."""
        heard, self.alive = self.alive, False
        return heard

    def run_operation(self, operation_id: uuid.UUID) -> None:
        """Claims an operation of this node and sends it."""
        now = utc_now()
        with borrowed_connection():
            claim = operation_claim(operation_id=operation_id, nodes=(self.node_id,), now=now)
        if claim is not None:
            self.send_operation(claim, now)

    def send_operation(self, claim: OperationClaim, now: dt.datetime) -> None:
        """Sends a claimed operation; what goes wrong here is repeated when its lease runs out."""
        link, transport = self._link, self._transport
        if link is None or transport is None:
            return
        failpoint("S7", points.of_attempt(claim.object_id))
        try:
            if claim.kind == OperationKind.ATTEMPT_START:
                _put_files(transport, claim)
                failpoint("S8", points.of_attempt(claim.object_id))
            left = max(1.0, (claim.deadline_at - now).total_seconds())
            link.send_op(Op(id=str(claim.id), token=claim.token, kind=claim.kind, args=claim.args, deadline_s=left))
        except (SshError, NodeOpError) as error:
            log.warning("operation.not_sent", node=self.name, kind=claim.kind, error=str(error))

    def ack(self, attempt_id: uuid.UUID, stream: int, offset: int) -> None:
        """Acknowledges bytes that became durable outside the link's thread."""
        if self._link is not None:
            self._link.ack(attempt_id, stream, offset)

    def ack_status(self, attempt_id: uuid.UUID, seq: int) -> None:
        """Acknowledges a status that was applied outside the link's thread."""
        if self._link is not None:
            self._link.ack_status(attempt_id, seq)

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        error, retry_s = "", 0.0
        try:
            self._speak()
        except PreflightFailed as problem:
            error, retry_s = str(problem), ENROL_RETRY_S
        except (SshError, NodeOpError) as problem:
            error, retry_s = str(problem), RETRY_S
        except StaleLink:
            log.info("node.link_superseded", node=self.name)
        except Exception as problem:
            log.exception("node.link_broke", node=self.name)
            error, retry_s = f"{type(problem).__name__}: {problem}", RETRY_S
        finally:
            self._link = None
            if self._transport is not None:
                self._transport.close()
            self._let_go(error, retry_s)

    def _let_go(self, error: str, retry_s: float) -> None:
        try:
            with borrowed_connection():
                if error and not self._closing:
                    log.info("node.link_failed", node=self.name, error=error)
                    link_failed(node_id=self.node_id, token=self.token, error=error, retry_in_s=retry_s)
                else:
                    link_release(node_id=self.node_id, token=self.token, retry_in_s=retry_s)
        except Exception as problem:  # the lease runs out by itself
            log.warning("node.lease_not_freed", node=self.name, error=str(problem))

    def _speak(self) -> None:
        self._transport = transport = self._connect()
        self._enrol(transport)
        agent = built_agent()
        install_agent(transport, agent.path, agent.version)
        link = AgentLink(transport, version=agent.version, link_token=self.token, handler=self)
        self._link = link
        if not self._closing:
            link.run()
        if not self._greeted and not self._closing:
            raise NodeOpError("no_agent", self._closed_because)

    def _connect(self) -> Transport:
        grant = self._grant
        with borrowed_connection():
            private, public = portal_key_private(), portal_key_public()
        target = SshTarget(host=grant.address, port=grant.port, user=grant.ssh_user)
        host_key = HostKey(type=grant.host_key_type, base64=grant.host_key)
        if grant.password is not None:
            with connect(target, host_key=host_key, private_key=None, password=grant.password) as once:
                install_public_key(once, public)
        return connect(target, host_key=host_key, private_key=private)

    def _enrol(self, transport: Transport) -> None:
        """Checks a new node before anything is put on it; a node in service was checked when it came."""
        with borrowed_connection():
            if node_state(self.node_id) != NodeState.ENROLLING:
                return
        checks = preflight(transport)
        rows = [
            {
                "code": c.code,
                "ok": c.ok or not c.required,
                "title": c.title,
                "detail": c.detail,
                "fix": c.fix,
                "warning": not c.ok,
            }
            for c in checks
        ]
        with borrowed_connection():
            clean = preflight_record(node_id=self.node_id, link_token=self.token, checks=rows, now=utc_now())
        if not clean:
            titles = "; ".join(check.title for check in checks if check.required and not check.ok)
            raise PreflightFailed(f"preflight found: {titles}")
        forget_links(transport)

    def on_hello(self, hello: Hello) -> dict[str, dict[int, int]]:
        """Answers the hello, then sends what waits, from another thread so that the reader goes on."""
        durable = super().on_hello(hello)
        self._greeted = True
        threading.Thread(target=self.after_hello, name=f"waiting-{self.name}", daemon=True).start()
        return {attempt: dict(streams) for attempt, streams in durable.items()}

    def on_closed(self, reason: str) -> None:
        """Remembers why the link ended."""
        self._closed_because = reason
        super().on_closed(reason)


def _put_files(transport: Transport, claim: OperationClaim) -> None:
    """Brings the input files that the node does not have yet; they are kept there by their content."""
    for entry in claim.args.get("files", []):
        file = FileRef(tenant_id=uuid.UUID(claim.args["tenant_id"]), sha256=entry["sha256"], size=entry["size"])
        put_file(transport, file.sha256, blob_chunks(file.key, file.size), timeout_s=FILE_TIMEOUT_S)
