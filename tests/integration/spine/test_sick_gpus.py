"""One GPU that fails leaves the offer alone; the others of its node go on."""

from typing import Any

import pytest

from apps.core.clock import utc_now
from apps.core.models import Event
from apps.core.tenancy import system_scope
from apps.fleet.models import GpuDevice
from apps.fleet.services import inventory_apply
from apps.scheduling.services import cycle_run
from apps.workloads.models import Attempt
from tests.spine_world import PlayedNode, inventory, make_member, make_node, make_tenant, submit
from workers.link.types import Samples

pytestmark = pytest.mark.django_db(transaction=True)


def sample(node: PlayedNode, *, kernel: tuple[str, ...] = (), sick: dict[int, dict[str, Any]] | None = None) -> None:
    """One round of readings of eight GPUs, some of them changed."""
    gpus = [{"uuid": f"GPU-gpu-01-{i}", "index": i, "errors": {}, **(sick or {}).get(i, {})} for i in range(8)]
    node.reports.on_samples(
        Samples(mono_ns=1, utc_ns=1, boot_id=node.boot_id, gpus=tuple(gpus), nvml_error=None, kernel=kernel)
    )


def healths() -> dict[str, str]:
    with system_scope():
        rows = GpuDevice.objects.exclude(health="ok").values_list("uuid", "health")
        return {uuid.removeprefix("GPU-gpu-01-"): health for uuid, health in rows}


OFF_BUS = "NVRM: GPU 0000:03:00.0: GPU has fallen off the bus."


def test_k8s_device_plugin_2038_seven_go_on_when_one_falls_off_the_bus() -> None:
    tenant, node = make_tenant(), make_node()
    _, alice = make_member(tenant, "alice@example.org", "owner")
    sample(node, kernel=(OFF_BUS,))
    assert healths() == {"3": "failing"}
    seven = submit(alice, tenant, gpus=7)
    cycle_run(now=utc_now())
    with system_scope():
        assert Attempt.objects.filter(job=seven).exists()
        idle = GpuDevice.objects.filter(share_used=0).values_list("uuid", flat=True)
        assert list(idle) == ["GPU-gpu-01-3"]


def test_a_job_for_all_eight_waits_while_one_is_out() -> None:
    tenant, node = make_tenant(), make_node()
    _, alice = make_member(tenant, "alice@example.org", "owner")
    sample(node, kernel=(OFF_BUS,))
    eight = submit(alice, tenant, gpus=8)
    cycle_run(now=utc_now())
    with system_scope():
        assert not Attempt.objects.filter(job=eight).exists()


def test_what_the_kernel_said_outlasts_inventories_and_readings_until_a_reboot() -> None:
    node = make_node()
    line = "NVRM: Xid (PCI:0000:05:00): 119, pid=7, name=x, Timeout"
    sample(node, kernel=(line,))
    sample(node, kernel=(line,))
    sample(node)
    inventory_apply(node_id=node.node.id, link_token=node.grant.token, inventory=inventory("gpu-01"), now=utc_now())
    assert healths() == {"5": "failing"}
    with system_scope():
        assert Event.objects.filter(name="node.gpu_health").count() == 1
    node.hello()
    assert healths() == {"5": "failing"}
    node.boot_id = "boot-2"
    node.hello()
    assert healths() == {}


def test_faults_of_applications_take_nothing_away() -> None:
    node = make_node()
    sample(node, kernel=tuple(f"NVRM: Xid (PCI:0000:05:00): {code}, x" for code in (13, 31, 43, 45)))
    assert healths() == {}


def test_a_gpu_that_lost_its_name_is_lost_and_comes_back() -> None:
    node = make_node()
    sample(node)
    sample(node, sick={2: {"uuid": None, "errors": {"handle": "GPU is lost"}}})
    assert healths() == {"2": "lost"}
    with system_scope():
        assert GpuDevice.objects.get(health="lost").health_detail == "GPU is lost"
    sample(node)
    assert healths() == {}


def test_unreadable_values_are_no_loss() -> None:
    node = make_node()
    sample(node, sick={1: {"errors": {"power": "Insufficient Permissions", "utilization": "Not Supported"}}})
    assert healths() == {}
