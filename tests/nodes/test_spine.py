"""The whole way on real nodes: enrolment, jobs with files and outputs, ends told apart, silence, reboot, take-over."""

import hashlib
import io
import tarfile

import pytest
from django.db import connection

from apps.accounts.selectors import actor_for
from apps.billing.models import UsageInterval
from apps.core.access import Actor
from apps.core.clock import utc_now
from apps.core.tenancy import system_scope
from apps.fleet.models import GpuDevice
from apps.storage.services import file_store
from apps.tenants.types import TenantRef
from apps.workloads.choices import Stream
from apps.workloads.models import Job
from apps.workloads.selectors import stream_chunks, stream_info
from apps.workloads.services import job_cancel
from apps.workloads.services.people import STOP_GRACE_S
from apps.workloads.types import InputFile
from portal.sandbox import SandboxNode
from tests.sandboxes import NodeFactory
from tests.spine_live import LiveSpine, attempts_of, until
from tests.spine_world import make_member, make_tenant, submit

pytestmark = [pytest.mark.nodes, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def people() -> tuple[TenantRef, Actor]:
    tenant = make_tenant()
    user, _ = make_member(tenant, "alice@example.org", "owner")
    return tenant, actor_for(user)


def stream_bytes(actor: Actor, tenant: TenantRef, job: Job, stream: int = Stream.LOG) -> bytes:
    return b"".join(stream_chunks(stream_info(actor=actor, tenant=tenant, job_id=job.id, stream=stream)))


def containers(node: SandboxNode) -> list[str]:
    return node.run(["podman", "ps", "-aq", "--filter", "label=berth.attempt"]).stdout.split()


def test_files_outputs_ends_and_nothing_left(
    sandbox_node: SandboxNode, sandbox_image: str, people: tuple[TenantRef, Actor]
) -> None:
    tenant, alice = people
    data = bytes(range(256)) * 4096
    file = file_store(actor=alice, tenant=tenant, chunks=[data], now=utc_now())
    with LiveSpine() as spine:
        spine.ready(sandbox_node)
        file_in = "/berth/in/data/all.bin"
        script = f"sha256sum {file_in}; ls /dev | grep -c '^nvidia[0-9]'; echo $SECRET; cp {file_in} /berth/out/"
        good = submit(
            alice, tenant, name="files", image=sandbox_image, command=("sh", "-c", script), gpus=3,
            env={"SECRET": "two\nlines"}, files=(InputFile("data/all.bin", file.sha256),), memory_mib=128,
        )  # fmt: skip
        bad = submit(alice, tenant, name="code", image=sandbox_image, command=("sh", "-c", "exit 7"), memory_mib=64)
        none = submit(alice, tenant, name="none", image="localhost/no/such:1", command=("x",), memory_mib=64)
        hungry = ("sh", "-c", "x=a; while :; do x=$x$x$x$x; done")
        oom = submit(alice, tenant, name="oom", image=sandbox_image, command=hungry, memory_mib=64)
        hit = submit(
            alice,
            tenant,
            name="signal",
            image=sandbox_image,
            command=("sh", "-c", "sleep 9 & kill -SEGV $!; wait $!"),
            memory_mib=64,
        )
        slow = submit(
            alice, tenant, name="slow", image=sandbox_image, command=("sleep", "600"), time_limit_s=1, memory_mib=64
        )
        ended = {job.name: spine.job_in(job, "ended") for job in (good, bad, none, oom, hit, slow)}
        told = {name: (job.result, job.end_reason) for name, job in ended.items()}
        assert told == {
            "files": ("succeeded", "exited"), "code": ("failed", "exit_code"), "none": ("failed", "user_fault"),
            "oom": ("failed", "out_of_memory"), "signal": ("failed", "signal"), "slow": ("failed", "time_limit"),
        }  # fmt: skip
        assert attempts_of(bad)[0].exit_code == 7
        lines = stream_bytes(alice, tenant, good).decode().splitlines()
        assert lines[0].startswith(hashlib.sha256(data).hexdigest())
        assert lines[1:] == ["3", "two", "lines"] or lines[1:] == ["3", "two lines"]
        with tarfile.open(fileobj=io.BytesIO(stream_bytes(alice, tenant, good, Stream.OUTPUTS))) as tar:
            member = next(m for m in tar.getmembers() if m.name.endswith("all.bin"))
            assert (tar.extractfile(member) or io.BytesIO()).read() == data
        until(
            lambda: all(a.removed_at for j in (good, bad, none, oom, hit, slow) for a in attempts_of(j)), "all removed"
        )
        until(lambda: containers(sandbox_node) == [], "no container is left")
        until(lambda: sandbox_node.run(["ls", "/var/lib/berth/record/attempts"]).stdout == "", "no record is left")
    with system_scope():
        assert set(GpuDevice.objects.values_list("share_used", flat=True)) == {0}
        assert UsageInterval.objects.filter(ended_at=None).count() == 0


def test_cancel_stops_the_container(
    sandbox_node: SandboxNode, sandbox_image: str, people: tuple[TenantRef, Actor]
) -> None:
    tenant, alice = people
    with LiveSpine() as spine:
        spine.ready(sandbox_node)
        command = ("sh", "-c", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done")
        job = submit(alice, tenant, image=sandbox_image, command=command, memory_mib=64)
        spine.job_in(job, "running")
        until(lambda: b"up" in stream_bytes(alice, tenant, job), "the log's first line")
        job_cancel(actor=alice, tenant=tenant, job_id=job.id, now=utc_now())
        assert spine.job_in(job, "ended").result == "cancelled"
        assert stream_bytes(alice, tenant, job) == b"up\nbye\n"


def test_cancelling_what_can_not_hear_term_does_not_wait_for_the_grace(
    sandbox_node: SandboxNode, sandbox_image: str, people: tuple[TenantRef, Actor]
) -> None:
    tenant, alice = people
    with LiveSpine() as spine:
        spine.ready(sandbox_node)
        job = submit(alice, tenant, image=sandbox_image, command=("sleep", "3000"), memory_mib=64)
        spine.job_in(job, "running")
        job_cancel(actor=alice, tenant=tenant, job_id=job.id, now=utc_now())
        assert spine.job_in(job, "ended", seconds=STOP_GRACE_S - 5).result == "cancelled"


def test_a_password_is_used_once_and_wiped(fresh_node: NodeFactory) -> None:
    node = fresh_node()
    with LiveSpine() as spine:
        view = spine.ready(node, password=node.password)
        assert view.host_key_fingerprint == node.host_key_fingerprint
        with connection.cursor() as cursor:
            cursor.execute("SELECT password_sealed FROM fleet_node")
            assert cursor.fetchall() == [(None,)]
        assert "berth-portal" in node.run(["cat", "/root/.ssh/authorized_keys"]).stdout


def test_an_unexpected_host_key_is_not_trusted(fresh_node: NodeFactory) -> None:
    node = fresh_node()
    with LiveSpine() as spine:
        row = spine.add(node, expected_fingerprint="SHA256:" + "A" * 43)
        view = until(lambda: _detail_of(spine, str(row.id), "was expected"), "the mismatch is told")
        assert view == "enrolling"
        assert node.run(["ls", "/var/lib/berth"]).stdout == ""


def _detail_of(spine: LiveSpine, node: str, words: str) -> str | None:
    view = spine.node_in(node, "enrolling")
    return view.state if words in view.state_detail else None


def test_partition_then_reboot(fresh_node: NodeFactory, sandbox_image: str, people: tuple[TenantRef, Actor]) -> None:
    tenant, alice = people
    node = fresh_node(gpus=2)
    with LiveSpine() as spine:
        view = spine.ready(node)
        script = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo line $i; sleep 0.1; done"
        job = submit(alice, tenant, image=sandbox_image, command=("sh", "-c", script), memory_mib=64, max_retries=1)
        spine.job_in(job, "running")
        node.partition()
        spine.node_in(str(view.id), "unreachable")
        assert spine.job_in(job, "running").state == "running"
        node.heal()
        spine.node_in(str(view.id), "ready")
        assert [a.no for a in attempts_of(job)] == [1]
        node.power_cut()
        spine.node_in(str(view.id), "unreachable")
        node.boot()
        spine.node_in(str(view.id), "ready")
        until(lambda: len(attempts_of(job)) == 2, "the lost attempt is followed by another")
        lost = attempts_of(job)[0]
        assert (lost.state, lost.end_reason) == ("ended", "node_lost")
        assert (lost.ran_ns or 0) > 1_000_000_000
        spine.job_in(job, "running")
        job_cancel(actor=alice, tenant=tenant, job_id=job.id, now=utc_now())
        assert spine.job_in(job, "ended").result == "cancelled"


def test_another_worker_takes_the_node_over(
    sandbox_node: SandboxNode, sandbox_image: str, people: tuple[TenantRef, Actor]
) -> None:
    tenant, alice = people
    script = "i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo line $i; sleep 0.1; done"
    with LiveSpine("first@live") as first:
        view = first.ready(sandbox_node)
        job = submit(alice, tenant, image=sandbox_image, command=("sh", "-c", script), memory_mib=64)
        first.job_in(job, "running")
        first.hub.stop()
        with LiveSpine("second@live") as second:
            done = second.job_in(job, "ended")
            assert (done.result, [a.no for a in attempts_of(job)]) == ("succeeded", [1])
            expected = b"".join(b"line %d\n" % i for i in range(1, 101))
            assert stream_bytes(alice, tenant, job) == expected
            second.node_in(str(view.id), "ready")
