"""GPUs and containers of sandbox nodes: the unmodified bindings, CDI, limits and GPU faults."""

from __future__ import annotations

import inspect
import json
import xml.etree.ElementTree as ElementTree
from typing import Any

import pynvml
import pytest

from portal.sandbox import SandboxCluster, SandboxNode
from tests.nodes.test_sandbox import until
from tests.sandboxes import NodeFactory

pytestmark = pytest.mark.nodes

_PROBE = """
import json, sys
sys.path.insert(0, "/srv")
import pynvml
pynvml.nvmlInit()
found = []
for index in range(pynvml.nvmlDeviceGetCount()):
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        found.append({
            "index": pynvml.nvmlDeviceGetIndex(handle),
            "uuid": pynvml.nvmlDeviceGetUUID(handle),
            "serial": pynvml.nvmlDeviceGetSerial(handle),
            "bus": pynvml.nvmlDeviceGetPciInfo(handle).bus,
            "name": pynvml.nvmlDeviceGetName(handle),
            "memory": pynvml.nvmlDeviceGetMemoryInfo(handle).total,
            "used": pynvml.nvmlDeviceGetMemoryInfo(handle).used,
            "util": pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
            "temp": pynvml.nvmlDeviceGetTemperature(handle, 0),
            "reasons": pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
            "pids": [process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)],
        })
    except pynvml.NVMLError as error:
        found.append({"error": error.value})
print(json.dumps(found))
"""

# A container that runs the node's own Python, so that no Python image is needed.
_BORROWED = ["-v=/usr:/usr:ro", "-v=/usr/lib:/lib:ro", "-v=/usr/lib64:/lib64:ro", "-v=/srv:/srv:ro"]


def put_probe(node: SandboxNode) -> None:
    node.write_file("/srv/pynvml.py", inspect.getsource(pynvml))
    node.write_file("/srv/probe.py", _PROBE)


def probe(node: SandboxNode, *container: str) -> list[dict[str, Any]]:
    """Return what the bindings see on the node, or in a container made by the given podman words."""
    done = node.run([*container, "/usr/bin/python3", "-I", "/srv/probe.py"])
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def podman(node: SandboxNode, *words: str) -> str:
    done = node.run(["podman", *words])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def gpu_node(fresh_node: NodeFactory) -> SandboxNode:
    node = fresh_node()
    put_probe(node)
    return node


def test_the_node_sees_the_gpus_it_was_ordered_with(fresh_node: NodeFactory) -> None:
    node = fresh_node(gpus=3, model="NVIDIA L40S", memory_mib=46068)
    put_probe(node)
    found = probe(node)
    assert [gpu["uuid"] for gpu in found] == [gpu.uuid for gpu in node.gpus]
    assert [gpu["serial"] for gpu in found] == [gpu.serial for gpu in node.gpus]
    assert [gpu["bus"] for gpu in found] == [gpu.pci_bus for gpu in node.gpus]
    assert {gpu["name"] for gpu in found} == {"NVIDIA L40S"}
    assert {gpu["memory"] for gpu in found} == {46068 << 20}
    assert {(gpu["util"], gpu["used"], gpu["reasons"]) for gpu in found} == {(0, 0, 1)}


def test_a_container_sees_only_its_own_gpus(gpu_node: SandboxNode, sandbox_image: str) -> None:
    mine = [gpu_node.gpus[3].uuid, gpu_node.gpus[5].uuid]
    devices = [f"--device=nvidia.com/gpu={uuid}" for uuid in mine]
    found = probe(gpu_node, "podman", "run", "--rm", *devices, *_BORROWED, sandbox_image)
    assert [gpu["uuid"] for gpu in found] == mine
    assert [gpu["index"] for gpu in found] == [0, 1]
    listed = podman(gpu_node, "run", "--rm", *devices, sandbox_image, "nvidia-smi", "-L").splitlines()
    assert [line.split("UUID: ")[1].rstrip(")") for line in listed] == mine
    nodes = podman(gpu_node, "run", "--rm", *devices, sandbox_image, "ls", "/dev").split()
    assert [name for name in nodes if name.startswith("nvidia") and name[6:].isdigit()] == ["nvidia3", "nvidia5"]


def test_a_container_without_gpus_has_no_driver(gpu_node: SandboxNode, sandbox_image: str) -> None:
    assert gpu_node.run(["podman", "run", "--rm", sandbox_image, "nvidia-smi"]).returncode == 127


def test_an_unknown_gpu_is_refused(gpu_node: SandboxNode, sandbox_image: str) -> None:
    done = gpu_node.run(["podman", "run", "--rm", "--device=nvidia.com/gpu=GPU-none", sandbox_image, "true"])
    assert done.returncode == 126
    assert "unresolvable CDI devices" in done.stderr


def test_a_held_gpu_is_busy_from_start_to_end(gpu_node: SandboxNode, sandbox_image: str) -> None:
    device = f"--device=nvidia.com/gpu={gpu_node.gpus[2].uuid}"
    podman(gpu_node, "create", "--name=job", "--log-driver=passthrough", device, sandbox_image, "sleep", "600")
    podman(gpu_node, "init", "job")
    assert probe(gpu_node)[2]["pids"] == []
    podman(gpu_node, "start", "job")
    pid = int(podman(gpu_node, "inspect", "job", "--format", "{{.State.Pid}}"))
    found = probe(gpu_node)
    assert found[2]["pids"] == [pid]
    assert found[2]["util"] > 80
    assert found[2]["used"] > 0
    assert [gpu["pids"] for index, gpu in enumerate(found) if index != 2] == [[]] * 7
    query = ["nvidia-smi", "--query-compute-apps=pid,gpu_uuid,used_memory", "--format=csv,noheader"]
    assert gpu_node.run(query).stdout.startswith(f"{pid}, {gpu_node.gpus[2].uuid}, ")
    podman(gpu_node, "kill", "--signal=KILL", "job")
    assert until(lambda: probe(gpu_node)[2]["pids"] == [])
    assert probe(gpu_node)[2]["util"] == 0


def test_a_restarted_container_is_busy_again_after_a_power_cut(gpu_node: SandboxNode, sandbox_image: str) -> None:
    device = f"--device=nvidia.com/gpu={gpu_node.gpus[0].uuid}"
    podman(gpu_node, "run", "-d", "--name=job", device, sandbox_image, "sleep", "600")
    gpu_node.power_cut()
    gpu_node.boot()
    assert podman(gpu_node, "inspect", "job", "--format", "{{.State.Status}}") == "created"
    assert probe(gpu_node)[0]["pids"] == []
    podman(gpu_node, "start", "job")
    assert len(probe(gpu_node)[0]["pids"]) == 1


def test_limits_are_real(gpu_node: SandboxNode, sandbox_image: str) -> None:
    groups = "/sys/fs/cgroup"
    files = [f"{groups}/memory/memory.limit_in_bytes", f"{groups}/pids/pids.max", f"{groups}/cpu/cpu.cfs_quota_us"]
    flags = ["--memory=64m", "--pids-limit=50", "--cpus=0.5"]
    limits = podman(gpu_node, "run", "--rm", *flags, sandbox_image, "cat", *files)
    assert limits.split() == [str(64 << 20), "50", "50000"]
    podman(gpu_node, "run", "-d", "--name=statistics", sandbox_image, "sleep", "600")
    assert podman(gpu_node, "stats", "--no-stream", "--format={{.Name}}") == "statistics"


def test_out_of_memory_ends_with_137(gpu_node: SandboxNode, sandbox_image: str) -> None:
    eat = ["/usr/bin/python3", "-c", "x = b'1' * (1 << 28)"]
    assert gpu_node.run(["podman", "run", "--memory=32m", *_BORROWED, sandbox_image, *eat]).returncode == 137
    podman(gpu_node, "create", "--name=oom", "--memory=32m", *_BORROWED, sandbox_image, *eat)
    # Debian's conmon leaves its note in the folder that podman was called from, podman looks in this one
    start = 'cd "$(podman inspect oom --format "{{.StaticDir}}")" && podman start oom && podman wait oom'
    assert gpu_node.run(["sh", "-c", start]).stdout.split() == ["oom", "137"]
    assert podman(gpu_node, "inspect", "oom", "--format", "{{.State.OOMKilled}}") == "true"


def test_a_container_has_no_network_by_default(gpu_node: SandboxNode, sandbox_image: str) -> None:
    assert podman(gpu_node, "run", "--rm", sandbox_image, "ls", "/sys/class/net") == "lo"


def test_passthrough_gives_the_bytes_as_they_are(gpu_node: SandboxNode, sandbox_image: str) -> None:
    line = r"printf 'a\000b\377'"
    command = f'podman run --rm --log-driver=passthrough {sandbox_image} sh -c "{line}" | od -An -tx1'
    assert gpu_node.run(["sh", "-c", command]).stdout.split() == ["61", "00", "62", "ff"]


def test_a_dropped_gpu_leaves_seven(gpu_node: SandboxNode) -> None:
    listen = (
        "import sys; sys.path.insert(0, '/srv'); import pynvml as n; n.nvmlInit(); s = n.nvmlEventSetCreate();\n"
        "for i in range(8): n.nvmlDeviceRegisterEvents(n.nvmlDeviceGetHandleByIndex(i), 8, s)\n"
        "open('/run/listening', 'w').close()\n"
        "e = n.nvmlEventSetWait_v2(s, 30000); print(e.eventType, e.eventData, flush=True)\n"
    )
    gpu_node.write_file("/srv/listen.py", listen)
    gpu_node.run(["sh", "-c", "setsid /usr/bin/python3 /srv/listen.py > /run/xid 2>&1 &"])
    assert until(lambda: gpu_node.run(["test", "-e", "/run/listening"]).returncode == 0)
    gpu_node.drop_gpu(4)
    gpu_node.drop_gpu(4)
    found = probe(gpu_node)
    assert found[4] == {"error": pynvml.NVML_ERROR_GPU_IS_LOST}
    assert len([gpu for gpu in found if "uuid" in gpu]) == 7
    assert until(lambda: gpu_node.run(["cat", "/run/xid"]).stdout == "8 79\n")
    smi = gpu_node.run(["nvidia-smi", "-L"])
    assert smi.returncode == 15
    assert smi.stdout.count("UUID") == 7
    assert gpu_node.describe()["lost_gpus"] == [4]


def test_a_dropped_gpu_is_gone_after_a_boot_until_restored(gpu_node: SandboxNode, sandbox_image: str) -> None:
    everyone = [gpu.uuid for gpu in gpu_node.gpus]
    gpu_node.drop_gpu(0)
    gpu_node.power_cut()
    gpu_node.boot()
    assert [gpu["uuid"] for gpu in probe(gpu_node)] == everyone[1:]
    argv = ["podman", "run", "--rm", f"--device=nvidia.com/gpu={everyone[0]}", sandbox_image, "true"]
    assert gpu_node.run(argv).returncode == 126
    gpu_node.restore_gpu(0)
    assert [gpu["uuid"] for gpu in probe(gpu_node)] == everyone
    assert gpu_node.run(argv).returncode == 0


def test_heat_throttles(gpu_node: SandboxNode) -> None:
    gpu_node.overheat(6, 95)
    found = probe(gpu_node)
    assert found[6]["temp"] == 95
    assert found[6]["reasons"] & 0x40
    gpu_node.set_gpu(6, temp=None)
    assert probe(gpu_node)[6]["temp"] < 60


def test_driver_faults(gpu_node: SandboxNode) -> None:
    gpu_node.set_driver(init_error=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    smi = gpu_node.run(["nvidia-smi"])
    assert smi.returncode == 18
    assert "version mismatch" in smi.stdout
    gpu_node.set_driver(init_error=None)
    assert len(probe(gpu_node)) == 8


def test_nvidia_smi_forms(gpu_node: SandboxNode) -> None:
    def smi(*words: str) -> str:
        done = gpu_node.run(["nvidia-smi", *words])
        assert done.returncode == 0, done.stdout
        return done.stdout

    first = gpu_node.gpus[0]
    rows = smi("--query-gpu=index,uuid,serial,memory.total,fan.speed", "--format=csv").splitlines()
    assert rows[0] == "index, uuid, serial, memory.total [MiB], fan.speed [%]"
    assert rows[1] == f"0, {first.uuid}, {first.serial}, 81559 MiB, [N/A]"
    assert smi("--query-gpu=memory.total", "--format=csv,noheader,nounits", "-i", first.uuid) == "81559\n"
    log = ElementTree.fromstring(smi("-q", "-x"))  # noqa: S314  our own nvidia-smi wrote it
    assert [gpu.findtext("uuid") for gpu in log.iter("gpu")] == [gpu.uuid for gpu in gpu_node.gpus]
    assert smi("topo", "-m").count("NV18") == 56
    assert len([line for line in smi().splitlines() if line.startswith("|")]) == 8
    bad = gpu_node.run(["nvidia-smi", "--query-gpu=colour", "--format=csv"])
    assert (bad.returncode, bad.stdout.strip()) == (2, 'Field "colour" is not a valid field to query.')


def test_all_nodes_share_the_images(sandbox: SandboxCluster, fresh_node: NodeFactory, sandbox_image: str) -> None:
    for node in (fresh_node(), fresh_node()):
        assert podman(node, "images", "--format", "{{.Repository}}:{{.Tag}}") == sandbox_image
    archive = sandbox.state_dir / "image.tar"
    source = fresh_node()
    saved = "/var/lib/berth/image.tar"
    podman(source, "save", "--format=oci-archive", "-o", saved, sandbox_image)
    archive.write_bytes((source.disk.disk / saved.lstrip("/")).read_bytes())
    try:
        assert sandbox.load_image(archive, "localhost/copy:2") == "localhost/copy:2"
        assert podman(source, "run", "--rm", "localhost/copy:2", "echo", "hello") == "hello"
    finally:
        archive.unlink()
