"""Logs that are hard to carry, from a container to the portal's blob and index; and many operations at once.

What the container says it wrote, what the node's record says and what the portal holds must be the same bytes.
"""

import datetime as dt
import hashlib
import io
import shutil
import tarfile
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from apps.accounts.selectors import actor_for
from apps.core.access import Actor
from apps.core.clock import utc_now
from apps.core.tenancy import system_scope
from apps.fleet.choices import OperationKind, OperationState
from apps.fleet.models import NodeOperation
from apps.fleet.services import operation_create
from apps.tenants.types import TenantRef
from apps.workloads.choices import Stream
from apps.workloads.models import ByteStream, Job
from apps.workloads.selectors import stream_chunks, stream_info
from apps.workloads.services import job_cancel, placing
from portal.sandbox import SandboxNode
from tests.spine_live import LiveSpine, attempts_of, until
from tests.spine_world import make_member, make_tenant, submit
from workers.agent.pump import log_marker
from workers.hub.reports import Reports

pytestmark = [pytest.mark.nodes, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

ODD = r"printf 'a\000b\377\376 \303(\r10%%\r20%%\n\033[31mred\033[0m\n\n\r\n'"
ODD_BYTES = b"a\0b\xff\xfe \xc3(\r10%\r20%\n\x1b[31mred\x1b[0m\n\n\r\n"


class Whole:
    """A spine with one ready node; `told` is what the node's record said of each stream when it was sealed."""

    def __init__(self, spine: LiveSpine, image: str, told: dict[tuple[uuid.UUID, int], Mapping[str, Any]]) -> None:
        self.spine, self._image, self.told = spine, image, told
        self.tenant: TenantRef = make_tenant()
        self.alice: Actor = actor_for(make_member(self.tenant, "alice@example.org", "owner")[0])

    def submit(self, script: str) -> Job:
        """Submits a shell script."""
        command = ("sh", "-c", script)
        return submit(self.alice, self.tenant, name="log", image=self._image, command=command, memory_mib=128)

    def ended(self, job: Job) -> Job:
        """Waits for the end, then checks that blob, index and the node's record agree."""
        done = self.spine.job_in(job, "ended", seconds=200)
        attempt = attempts_of(job)[0]
        info = stream_info(actor=self.alice, tenant=self.tenant, job_id=job.id, stream=Stream.LOG)
        digest, length = hashlib.sha256(), 0
        for chunk in stream_chunks(info):
            digest.update(chunk)
            length += len(chunk)
        told = self.told[attempt.id, Stream.LOG]
        assert (length, digest.hexdigest()) == (info.length, info.sha256)
        assert (length, digest.hexdigest()) == (int(told["length"]), told["sha256"])
        return done

    def log(self, job: Job, stream: int = Stream.LOG) -> bytes:
        """Returns a stream as it stands."""
        info = stream_info(actor=self.alice, tenant=self.tenant, job_id=job.id, stream=stream)
        return b"".join(stream_chunks(info))

    def row(self, job: Job) -> ByteStream:
        """Returns the log's row of the index."""
        with system_scope():
            return ByteStream.objects.get(attempt__job=job, stream=Stream.LOG)

    def written(self, job: Job) -> str:
        """Returns the SHA-256 that the container found for what it wrote."""
        with tarfile.open(fileobj=io.BytesIO(self.log(job, Stream.OUTPUTS))) as tar:
            member = next(m for m in tar.getmembers() if m.name.endswith("digest"))
            return (tar.extractfile(member) or io.BytesIO()).read().decode().split()[0]


@pytest.fixture
def whole(sandbox_node: SandboxNode, sandbox_image: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Whole]:
    told: dict[tuple[uuid.UUID, int], Mapping[str, Any]] = {}
    seal = Reports._seal

    def note(self: Reports, attempt_id: uuid.UUID, stream: int, said: Mapping[str, Any], now: dt.datetime) -> None:
        told[attempt_id, stream] = said
        seal(self, attempt_id, stream, said, now)

    monkeypatch.setattr(Reports, "_seal", note)
    try:
        with LiveSpine() as spine:
            spine.ready(sandbox_node)
            yield Whole(spine, sandbox_image, told)
    finally:
        shutil.rmtree(Path(settings.BERTH_BLOB_DIR), ignore_errors=True)  # a gigabyte is not left to the run's end


def check(whole: Whole, script: str, *, length: int) -> None:
    """Runs a script as a log, and again into a hash; the node keeps nothing afterwards."""
    job = whole.submit(f"{script}; {script} | sha256sum > /berth/out/digest")
    assert whole.ended(job).result == "succeeded"
    row = whole.row(job)
    assert (row.length, row.truncated) == (length, False)
    assert row.sha256 == whole.written(job)
    until(lambda: attempts_of(job)[0].removed_at, "the node has removed its spool")


@pytest.mark.slow
def test_ten_million_lines_as_fast_as_they_come(whole: Whole) -> None:
    check(whole, "yes 'step loss 0.125' | head -n 10000000", length=160_000_000)


@pytest.mark.slow
def test_one_gigabyte(whole: Whole) -> None:
    check(whole, "yes 'all work and no play makes a dull log' | head -c 1000000000", length=1_000_000_000)


@pytest.mark.slow
def test_a_line_of_100_mb(whole: Whole) -> None:
    check(whole, "head -c 100000000 /dev/zero | tr '\\0' x", length=100_000_000)


def test_bytes_that_are_no_text(whole: Whole) -> None:
    job = whole.submit(ODD)
    whole.ended(job)
    assert whole.log(job) == ODD_BYTES


def test_a_stop_in_the_middle_of_a_line(whole: Whole) -> None:
    job = whole.submit("printf 'epoch 1\\nepoch 2: 40'; exec sleep 600")
    until(lambda: whole.spine.job_in(job, "running") and whole.log(job).endswith(b" 40"), "the half line")
    job_cancel(actor=whole.alice, tenant=whole.tenant, job_id=job.id, now=utc_now())
    assert whole.ended(job).result == "cancelled"
    assert whole.log(job) == b"epoch 1\nepoch 2: 40"


def test_a_log_at_its_limit_is_cut_with_a_marker_and_the_job_goes_on(
    whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 1_000_000
    monkeypatch.setattr(placing, "LOG_LIMIT_BYTES", limit)
    job = whole.submit("yes 0123456789abcde | head -c 3000000; echo done > /berth/out/went-on")
    assert whole.ended(job).result == "succeeded"
    assert whole.log(job) == (b"0123456789abcde\n" * (limit // 16 + 1))[:limit] + log_marker(limit)
    assert whole.row(job).truncated
    assert b"went-on" in whole.log(job, Stream.OUTPUTS)


def test_200_operations_at_once_on_one_node(whole: Whole) -> None:
    """A stock sshd (MaxSessions 10, MaxStartups 10:30:100) sees one connection and one channel."""
    with system_scope():
        node = NodeOperation.objects.order_by("created_at").values_list("node_id", flat=True)[0]

    def ask(_: int) -> uuid.UUID:
        try:
            attempt = uuid.uuid4()  # nothing of it is on the node: removing it succeeds at once
            with system_scope():
                return operation_create(
                    node_id=node, kind=OperationKind.ATTEMPT_REMOVE, object_id=attempt,
                    args={"attempt_id": str(attempt)}, valid_for=dt.timedelta(minutes=2), now=utc_now(),
                )  # fmt: skip
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        asked = list(pool.map(ask, range(200)))

    def states() -> list[str]:
        with system_scope():
            return list(NodeOperation.objects.filter(pk__in=asked).values_list("state", flat=True))

    until(lambda: len(states()) == 200 and set(states()) <= {OperationState.DONE, OperationState.FAILED}, "all ended")
    assert states() == [OperationState.DONE] * 200
