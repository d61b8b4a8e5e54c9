"""What a node's agent says, turned into the services' calls; runs in the link's thread, one call at a time."""

import datetime as dt
import time
import uuid
from collections.abc import Mapping
from typing import Any, Protocol

import structlog

from apps.core import hints
from apps.core.clock import utc_now
from apps.core.failpoints import failpoint
from apps.fleet.choices import GpuHealth, NodeState, OperationKind
from apps.fleet.selectors import gpu_healths, inventory_hash, node_state, operations_waiting_on
from apps.fleet.services import (
    gpu_health_set,
    gpus_fail,
    inventory_apply,
    inventory_ask,
    node_greeted,
    operation_finish,
    operations_requeue_of_link,
)
from apps.fleet.types import LinkGrant
from apps.monitoring.services import readings_store
from apps.monitoring.types import GpuReading
from apps.storage.blobs import blob_sha256, blob_store
from apps.workloads.choices import Stream
from apps.workloads.selectors import attempt_job, live_jobs_of_gpus, stream_durable_lengths, stream_key
from apps.workloads.services import (
    attempt_accepted,
    attempt_ended,
    attempt_progressed,
    attempt_removed,
    attempt_running,
    attempt_stuck,
    attempts_reconcile,
    foreign_remove_ask,
    stream_extend,
    stream_seal,
)
from workers import points
from workers.db import borrowed_connection
from workers.hub.endings import end_of
from workers.hub.streams import StreamWriter
from workers.link.types import Alive, Hello, Result, Samples, Status
from workers.nodeops.gpu.xid import read_kernel_log, reason, worst

log = structlog.get_logger(__name__)

_ENDS = ("exited", "failed", "cancelled", "lost")


class LinkVoice(Protocol):
    """What the reports need to say back over the link."""

    def run_operation(self, operation_id: uuid.UUID) -> None: ...

    def ack(self, attempt_id: uuid.UUID, stream: int, offset: int) -> None: ...

    def ack_status(self, attempt_id: uuid.UUID, seq: int) -> None: ...


class Reports:
    """The LinkHandler of one node under one link token."""

    def __init__(self, grant: LinkGrant, voice: LinkVoice) -> None:
        self._node_id = grant.node_id
        self._token = grant.token
        self._name = grant.name
        self._voice = voice
        self._writers: dict[tuple[uuid.UUID, int], StreamWriter] = {}
        self._ends: dict[uuid.UUID, Status] = {}
        self._lost_gpus: set[str] = set()
        self._seen_gpus: set[str] = set()
        self._kernel: tuple[str, ...] = ()
        self._unknown: set[uuid.UUID] = set()
        self._known: set[uuid.UUID] = set()
        self.alive = False

    # -- the LinkHandler -----------------------------------------------------------------------------------------

    def on_hello(self, hello: Hello) -> Mapping[str, Mapping[int, int]]:
        """Takes the node back into service and compares records; returns what is durable here."""
        now = utc_now()
        with borrowed_connection():
            node_greeted(
                node_id=self._node_id, link_token=self._token, boot_id=hello.boot_id, version=hello.version,
                epoch=str(hello.epoch), skew_ms=(hello.utc_ns - time.time_ns()) // 1_000_000, now=now,
            )  # fmt: skip
            on_node = {uuid.UUID(str(a["attempt"])): str(a["state"]) for a in hello.attempts}
            self._unknown = attempts_reconcile(node_id=self._node_id, link_token=self._token, on_node=on_node, now=now)
            durable = stream_durable_lengths(attempt_ids=list(on_node))
            self._remember_gpus()
            self._ask_inventory(hello, now)
            operations_requeue_of_link(node_id=self._node_id, now=now)
        log.info("node.hello", node=self._name, boot_id=hello.boot_id, attempts=len(on_node))
        return {str(attempt_id): dict(streams) for attempt_id, streams in durable.items()}

    def _ask_inventory(self, hello: Hello, now: dt.datetime) -> None:
        known = inventory_hash(self._node_id)
        if known and known == hello.inventory_hash and node_state(self._node_id) != NodeState.ENROLLING:
            return
        inventory_ask(node_id=self._node_id, now=now)

    def _remember_gpus(self) -> None:
        healths = gpu_healths(self._node_id)
        self._lost_gpus = {gpu for gpu, health in healths.items() if health == GpuHealth.LOST}
        self._seen_gpus = {gpu for gpu, health in healths.items() if health != GpuHealth.MISSING}
        self._kernel = ()

    def after_hello(self) -> None:
        """Sends what waits for this node, now that it listens."""
        with borrowed_connection():
            waiting = operations_waiting_on(self._node_id)
        for operation_id in waiting:
            self._voice.run_operation(operation_id)

    def on_result(self, result: Result) -> bool:
        """Closes the operation and does what follows from it."""
        now = utc_now()
        answer = {"data": dict(result.data), "error": dict(result.error) if result.error else None}
        with borrowed_connection():
            row = operation_finish(
                operation_id=uuid.UUID(result.id), token=result.token, ok=result.ok, result=answer, now=now
            )
            if row is None:
                return True
            if row.kind == OperationKind.INVENTORY and result.ok:
                inventory_apply(node_id=self._node_id, link_token=self._token, inventory=dict(result.data), now=now)
                self._remember_gpus()
            elif row.kind == OperationKind.ATTEMPT_START:
                self._start_answered(row.object_id, result, now)
            elif row.kind == OperationKind.ATTEMPT_REMOVE and result.ok:
                attempt_removed(attempt_id=row.object_id, now=now)
                self._forget(row.object_id)
        return True

    def _start_answered(self, attempt_id: uuid.UUID, result: Result, now: dt.datetime) -> None:
        if result.ok:
            attempt_accepted(attempt_id=attempt_id, node_id=self._node_id, now=now)
            # Looked up while the container starts, so that its first byte waits for nothing.
            self._writer(attempt_id, Stream.LOG)
        elif result.error and result.error.get("code") != "cancelled":  # a stop's own report follows
            status = Status(
                attempt_id=attempt_id, seq=0, state="failed", at_mono_ns=0, at_utc_ns=0, boot_id="",
                data={"stage": "spec", "fault": "node", "message": str(result.error.get("message"))},
            )  # fmt: skip
            self._end(status, now)

    def on_status(self, status: Status) -> bool:
        """Applies one step of an attempt's life; an end waits until its bytes stand here."""
        if status.state == "preparing":
            return True  # the answer to the start says the same
        now = utc_now()
        with borrowed_connection():
            if not self._is_known(status.attempt_id):  # an earlier database knew it; the hello had it stopped
                if status.state in _ENDS:
                    foreign_remove_ask(node_id=self._node_id, attempt_id=status.attempt_id, now=now)
                return True
            about: dict[str, Any] = {
                "node_id": self._node_id, "link_token": self._token, "attempt_id": status.attempt_id,
                "status_seq": status.seq, "now": now,
            }  # fmt: skip
            if status.state in _ENDS:
                failpoint("S12", points.of_attempt(status.attempt_id))
                return self._end_when_whole(status, now)
            if status.state == "running":
                container = str(status.data.get("container_id") or "")
                attempt_running(**about, boot_id=status.boot_id, container_id=container)
            elif status.state == "stuck":
                attempt_stuck(**about, message=str(status.data.get("message") or ""))
            else:
                attempt_progressed(**about, progress={"state": status.state, **_small(status.data)})
        return True

    def _is_known(self, attempt_id: uuid.UUID) -> bool:
        if attempt_id not in self._known and attempt_job(attempt_id) is not None:
            self._known.add(attempt_id)
        return attempt_id in self._known

    def on_bytes(self, attempt_id: uuid.UUID, stream: int, offset: int, data: bytes) -> int | None:
        """Keeps bytes; acknowledges what became durable with them, if anything did."""
        if attempt_id in self._unknown:
            return offset + len(data)  # nobody could ever read it
        writer = self._writer(attempt_id, stream)
        with writer.lock:
            writer.write(offset, data)
        if not writer.prompt_due() or not writer.striding.acquire(blocking=False):
            return None
        try:
            return self._stride(writer)
        finally:
            writer.striding.release()

    def on_samples(self, samples: Samples) -> None:
        """Stores readings, takes a lost GPU out of the offer, and tells the pages of the jobs on these GPUs."""
        at = utc_now()
        readings = [_reading(gpu, at) for gpu in samples.gpus if gpu.get("uuid")]
        with borrowed_connection():
            readings_store(readings=readings)
            self._note_lost(samples, at)
            self._note_kernel(samples, at)
            for job_id in live_jobs_of_gpus([r.gpu_uuid for r in readings]):
                hints.publish(f"job/{job_id}", {"kind": "sample"})
        hints.publish(f"node/{self._node_id}", {"kind": "sample"})

    def _note_lost(self, samples: Samples, at: dt.datetime) -> None:
        answered = {str(gpu["uuid"]): _lost_words(gpu) for gpu in samples.gpus if gpu.get("uuid")}
        if samples.nvml_error is None:  # a GPU off the bus may have lost its name too
            nameless = next((_lost_words(gpu) for gpu in samples.gpus if not gpu.get("uuid")), "")
            for gone in self._seen_gpus - answered.keys():
                answered[gone] = nameless or "the driver no longer lists this GPU"
        self._seen_gpus |= answered.keys()
        for known, lost in answered.items():
            if bool(lost) != (known in self._lost_gpus):
                health = GpuHealth.LOST if lost else GpuHealth.OK
                gpu_health_set(node_id=self._node_id, gpu_uuid=known, health=health, detail=lost, now=at)
                (self._lost_gpus.add if lost else self._lost_gpus.discard)(known)

    def _note_kernel(self, samples: Samples, at: dt.datetime) -> None:
        """Takes GPUs out of the offer that the node's kernel calls broken; the lines are the same until a new one."""
        if samples.kernel == self._kernel:
            return
        faults = {pci: reason(event) for pci, event in worst(read_kernel_log(samples.kernel)).items()}
        if faults:
            taken = gpus_fail(node_id=self._node_id, faults=faults, now=at)
            log.warning("gpu.failing", node=self._name, gpus=taken, faults=faults)
        self._kernel = samples.kernel

    def on_alive(self, alive: Alive) -> None:
        """Remembers a sign of life; the hub writes them together."""
        self.alive = True

    def on_closed(self, reason: str) -> None:
        """Says why the link ended."""
        log.info("node.link_closed", node=self._name, reason=reason)

    # -- bytes and ends ------------------------------------------------------------------------------------------

    def flush_late(self) -> None:
        """Indexes what the link's thread has left, and the ends that waited for it."""
        for writer in list(self._writers.values()):
            with writer.striding:
                durable = self._stride(writer) if writer.stride_due() else None
            if durable is not None:
                self._voice.ack(writer.attempt_id, writer.stream, durable)
        for status in list(self._ends.values()):
            with borrowed_connection():
                if self._end_when_whole(status, utc_now()):
                    self._voice.ack_status(status.attempt_id, status.seq)

    def _writer(self, attempt_id: uuid.UUID, stream: int) -> StreamWriter:
        writer = self._writers.get((attempt_id, stream))
        if writer is None:
            with borrowed_connection():
                durable = stream_durable_lengths(attempt_ids=[attempt_id]).get(attempt_id, {}).get(stream, 0)
            writer = self._writers.setdefault(
                (attempt_id, stream), StreamWriter(attempt_id, stream, durable, blob_store())
            )
        return writer

    def _stride(self, writer: StreamWriter) -> int:
        """Syncs and indexes what was written; returns the durable length."""
        length = writer.sync()
        with borrowed_connection():
            stream_extend(
                node_id=self._node_id, link_token=self._token, attempt_id=writer.attempt_id, stream=writer.stream,
                length=length,
            )  # fmt: skip
        writer.durable = length
        return length

    def _end_when_whole(self, status: Status, now: dt.datetime) -> bool:
        streams = status.data.get("streams") or {}
        for number, told in streams.items():
            if self._writer(status.attempt_id, int(number)).durable < int(told["length"]):
                self._ends[status.attempt_id] = status
                return False
        for number, told in streams.items():
            self._seal(status.attempt_id, int(number), told, now)
        self._end(status, now)
        self._ends.pop(status.attempt_id, None)
        return True

    def _seal(self, attempt_id: uuid.UUID, stream: int, told: Mapping[str, Any], now: dt.datetime) -> None:
        """Closes a stream by what stands here, read back; the node's own hash must agree."""
        length = self._writer(attempt_id, stream).durable
        sha256 = blob_sha256(stream_key(attempt_id, stream), length)
        if told.get("sha256") and length == int(told["length"]) and told["sha256"] != sha256:
            log.error("stream.hash_differs", attempt=str(attempt_id), stream=stream, node=told["sha256"], portal=sha256)
        stream_seal(
            attempt_id=attempt_id,
            stream=stream,
            length=length,
            sha256=sha256,
            truncated=bool(told.get("truncated")),
            now=now,
        )

    def _end(self, status: Status, now: dt.datetime) -> None:
        attempt_ended(
            node_id=self._node_id, link_token=self._token, attempt_id=status.attempt_id, status_seq=status.seq,
            end=end_of(status), now=now,
        )  # fmt: skip

    def _forget(self, attempt_id: uuid.UUID) -> None:
        self._known.discard(attempt_id)
        for key in [k for k in self._writers if k[0] == attempt_id]:
            self._writers.pop(key, None)


def _small(data: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in data.items() if k in ("done", "total", "container_id")}


def _lost_words(gpu: Mapping[str, Any]) -> str:
    """Why this GPU counts as lost; empty when it answers."""
    return next((str(r) for r in (gpu.get("errors") or {}).values() if "lost" in str(r).lower()), "")


def _reading(gpu: Mapping[str, Any], at: dt.datetime) -> GpuReading:
    return GpuReading(
        gpu_uuid=str(gpu["uuid"]), at=at, utilisation_percent=gpu.get("utilization_percent"),
        memory_used_mib=gpu.get("memory_used_mib"), temperature_celsius=gpu.get("temperature_c"),
        power_watts=gpu.get("power_watts"), sm_clock_mhz=gpu.get("sm_clock_mhz"),
    )  # fmt: skip
