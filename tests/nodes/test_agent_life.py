"""An attempt's life on a sandbox node over real SSH, end by end."""

from __future__ import annotations

import hashlib
import io
import socket
import tarfile
import uuid
from collections.abc import Iterator

import pytest

from portal.sandbox import SandboxNode
from tests.nodes.agent_fixtures import world_of
from tests.nodes.agent_world import World
from workers.nodeops import AGENT_HOME, put_file

pytestmark = pytest.mark.nodes


@pytest.fixture
def world(sandbox_node: SandboxNode, sandbox_image: str) -> Iterator[World]:
    world = world_of(sandbox_node, sandbox_image)
    try:
        yield world
    finally:
        world.close()


def test_exit_log_and_removal(world: World) -> None:
    text = b"hello\nerr\nnul\0x\xff\xfe\rno newline"
    attempt = world.start("sh", "-c", r"echo hello; echo err >&2; printf 'nul\000x\377\376\rno newline'")
    end = world.ended(attempt)
    assert (end.state, end.data["exit_code"], end.data["signal"]) == ("exited", 0, None)
    assert world.log(attempt) == text
    world.check_hash(attempt, end)
    world.check_hash(attempt, end, stream=1)
    assert world.hub.states(attempt) == ["preparing", "running", "exited"]
    assert [len(world.journal(attempt, event)) for event in ("create", "start", "exit")] == [1, 1, 1]
    assert world.op("attempt_remove", attempt_id=str(attempt)).ok
    assert str(attempt) not in world.sh(f"ls {AGENT_HOME}/record/attempts /run/berth/fifo; podman ps -a")
    assert "sleep 2147483647" not in world.sh("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '; true")


def test_exit_code_signal_and_memory_are_told_apart(world: World) -> None:
    code = world.ended(world.start("sh", "-c", "exit 3"))
    assert (code.data["exit_code"], code.data["signal"], code.data["oom"]) == (3, None, False)
    killed = world.ended(world.start("sh", "-c", "sh -c 'kill -9 $$'; exit $?"))
    assert (killed.data["exit_code"], killed.data["signal"], killed.data["oom"]) == (137, "SIGKILL", False)
    hungry = world.start("sh", "-c", "x=a; while :; do x=$x$x; done", memory_mib=32)
    oom = world.ended(hungry)
    assert (oom.data["exit_code"], oom.data["oom"]) == (137, True)


def test_faults_of_the_user(world: World) -> None:
    missing = world.ended(world.start("true", image="localhost/nothing:1"))
    assert (missing.state, missing.data["fault"], missing.data["code"]) == ("failed", "user", "image_not_found")
    unknown = world.start("no-such-command")
    end = world.ended(unknown)
    assert (end.data["stage"], end.data["fault"], end.data["code"]) == ("start", "user", "command_not_found")
    directory = world.ended(world.start("/tmp"))
    assert (directory.data["fault"], directory.data["code"]) == ("user", "command_not_executable")
    assert f"berth-{unknown}" not in world.sh("podman ps -a --format '{{.Names}}'")


def test_a_gpu_without_a_device_is_the_nodes_fault(world: World) -> None:
    end = world.ended(world.start("true", gpus=["GPU-00000000-0000-0000-0000-00000000dead"]))
    assert (end.state, end.data["fault"], end.data["code"]) == ("failed", "node", "gpu_missing")


def test_the_container_sees_its_own_gpus_alone(world: World, sandbox_node: SandboxNode) -> None:
    mine = [sandbox_node.gpus[2].uuid, sandbox_node.gpus[5].uuid]
    env = {"NVIDIA_VISIBLE_DEVICES": "all"}
    attempt = world.start("sh", "-c", "ls /dev | grep 'nvidia[0-9]'", gpus=mine, env=env)
    assert world.ended(attempt).data["exit_code"] == 0
    assert world.log(attempt).split() == [b"nvidia2", b"nvidia5"]


def test_environment_and_command_arrive_unchanged_and_unseen(world: World) -> None:
    env = {"SECRET": "a'b\"c $HOME `x` \\ #", "LINES": "one\ntwo\n", "TAIL": "cr\r", "EMPTY": "", "LD_PRELOAD": "/x\n"}
    script = 'for n in SECRET LINES TAIL EMPTY; do eval "printf %s \\"\\$$n\\"|od -An -tx1"; done; printf "%s" "$1"'
    attempt = world.start("sh", "-c", script, "sh", "-- 'quoted' \n$(x)", env={**env, "SLEEP": "1"})
    argv = world.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "a'b" not in argv
    assert world.ended(attempt).data["exit_code"] == 0
    text = world.log(attempt)
    *dumps, rest = text.split(b"\n", text.count(b"\n") - 1)
    values = bytes.fromhex(b"".join(dumps).decode())
    assert values == "".join(env[name] for name in ("SECRET", "LINES", "TAIL", "EMPTY")).encode()
    assert rest == b"-- 'quoted' \n$(x)"
    assert world.op("attempt_remove", attempt_id=str(attempt)).ok
    assert world.sh("podman secret ls --noheading") == ""


def test_files_in_and_outputs_kept(world: World) -> None:
    data = b"weights\0" * 1000
    digest = hashlib.sha256(data).hexdigest()
    put_file(world.transport, digest, iter([data[:10], data[10:]]), timeout_s=20)
    assert world.op("file_present", sha256=digest).data["present"]
    files = [{"path": "model/w.bin", "sha256": digest, "size": len(data)}]
    script = "cp /berth/in/model/w.bin /berth/out/; ln -s /etc/passwd /berth/out/link; echo x > /berth/in/model/y"
    end = world.ended(attempt := world.start("sh", "-c", script, files=files))
    assert end.data["exit_code"] == 1, "the inputs must be read-only"
    world.check_hash(attempt, end, stream=1)
    with tarfile.open(fileobj=io.BytesIO(bytes(world.hub.streams[attempt, 1]))) as tar:
        assert tar.getnames() == ["link", "w.bin"]
        assert tar.getmember("link").issym()
        found = tar.extractfile("w.bin")
        assert found is not None
        assert found.read() == data


def test_a_missing_and_a_damaged_file_are_the_nodes_fault(world: World) -> None:
    digest = hashlib.sha256(b"other").hexdigest()
    entry = {"path": "a", "sha256": digest, "size": 5}
    assert world.ended(world.start("true", files=[entry])).data["code"] == "file_missing"
    put_file(world.transport, digest, iter([b"wrong"]), timeout_s=20)
    assert world.ended(world.start("true", files=[entry])).data["code"] == "file_corrupt"


def test_outputs_over_the_limit_are_cut_by_whole_files(world: World) -> None:
    script = "cd /berth/out; echo a > a; dd if=/dev/zero of=b bs=1M count=2 2>/dev/null; echo c > c"
    end = world.ended(attempt := world.start("sh", "-c", script, outputs_limit_bytes=1 << 20))
    assert end.data["streams"]["1"]["truncated"]
    with tarfile.open(fileobj=io.BytesIO(bytes(world.hub.streams[attempt, 1]))) as tar:
        assert tar.getnames() == ["a", "c"]


def test_the_log_limit_cuts_with_a_marker_and_never_kills(world: World) -> None:
    script = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; exit 7"
    end = world.ended(attempt := world.start("sh", "-c", script, log_limit_bytes=10_000))
    assert end.data["exit_code"] == 7
    assert end.data["streams"]["0"]["truncated"]
    log = world.log(attempt)
    assert log[10_000:].startswith(b"\n[berth: the log reached its limit of 10000 bytes")
    world.check_hash(attempt, end)


def test_the_time_limit(world: World) -> None:
    end = world.ended(world.start("sleep", "100", time_limit_s=1, stop_grace_s=0.5))
    assert end.data["timed_out"]
    assert end.data["stopped"] == "time_limit"
    assert end.data["exit_code"] == 137
    assert end.data["ran_ns"] >= 1_000_000_000


def test_a_stop_gives_the_grace(world: World) -> None:
    script = "trap 'echo saving; sleep 0.2; echo saved; exit 75' TERM; echo up; while :; do sleep 0.1; done"
    attempt = world.start("sh", "-c", script)
    world.hub.wait(lambda: b"up" in world.log(attempt))
    assert world.op("attempt_stop", attempt_id=str(attempt), grace_s=20, reason="user").ok
    end = world.ended(attempt)
    assert (end.data["exit_code"], end.data["stopped"]) == (75, "user")
    assert world.log(attempt) == b"up\nsaving\nsaved\n"


def test_a_stop_before_the_start_refuses_the_start(world: World) -> None:
    spec = world.spec("true")
    assert world.op("attempt_stop", attempt_id=spec["attempt_id"], grace_s=1, reason="user").ok
    refused = world.op("attempt_start", **spec)
    assert refused.error is not None
    assert refused.error["code"] == "cancelled"
    assert world.hub.states(uuid.UUID(spec["attempt_id"])) == ["cancelled"]
    assert world.op("attempt_remove", attempt_id=spec["attempt_id"]).ok


@pytest.mark.parametrize("point", ["before_create", "after_create", "after_start"])
def test_a_stop_on_the_way_leaks_nothing(world: World, point: str) -> None:
    spec = world.spec("sleep", "100")
    attempt = uuid.UUID(spec["attempt_id"])
    folder = f"{AGENT_HOME}/failpoints"
    world.sh(f"mkdir -p {folder}; echo park {attempt} > {folder}/{point}")
    assert world.op("attempt_start", **spec).ok
    world.until(lambda: str(attempt) in world.try_exec(f"cat {folder}/{point}.hit"), what=point)
    assert world.op("attempt_stop", attempt_id=str(attempt), grace_s=0, reason="user").ok
    world.sh(f"rm -rf {folder}")
    end = world.ended(attempt)
    assert end.state == ("exited" if point == "after_start" else "cancelled")
    assert world.op("attempt_remove", attempt_id=str(attempt)).ok
    assert str(attempt) not in world.sh(f"podman ps -a --format '{{{{.Names}}}}'; ls {AGENT_HOME}/record/attempts")


def test_a_stop_while_pulling(world: World, sandbox_node: SandboxNode) -> None:
    """The registry takes the connection and never answers."""
    gateway = sandbox_node.address.rpartition(".")[0] + ".1"
    with socket.create_server((gateway, 0)) as silent:
        attempt = world.start("true", image=f"{gateway}:{silent.getsockname()[1]}/some/image:1")
        world.hub.wait(lambda: any(status.state == "pulling" for status in world.hub.statuses[attempt].values()))
        assert world.op("attempt_stop", attempt_id=str(attempt), grace_s=30, reason="user").ok
        end = world.ended(attempt)
    assert (end.state, end.data["reason"]) == ("cancelled", "user")
    world.until(lambda: "podman pull" not in world.sh("pgrep -af podman; true"), what="the pull's end")
    assert world.op("attempt_remove", attempt_id=str(attempt)).ok


def test_an_unreachable_registry_is_the_nodes_fault(world: World, sandbox_node: SandboxNode) -> None:
    gateway = sandbox_node.address.rpartition(".")[0] + ".1"
    end = world.ended(world.start("true", image=f"{gateway}:1/some/image:1"))
    assert (end.data["stage"], end.data["fault"], end.data["code"]) == ("pull", "node", "registry_unreachable")


def test_the_same_start_twice_is_one_container(world: World) -> None:
    spec = world.spec("sh", "-c", "echo once; sleep 0.3")
    first = world.op("attempt_start", **spec)
    again = world.op("attempt_start", **spec)
    assert first.ok
    assert again.ok
    attempt = uuid.UUID(spec["attempt_id"])
    world.ended(attempt)
    assert world.log(attempt) == b"once\n"
    assert len(world.journal(attempt, "start")) == 1
    assert world.op("attempt_remove", attempt_id=str(attempt)).ok
    late = world.op("attempt_start", **spec)
    assert late.error is not None
    assert late.error["code"] == "removed"


def test_bad_arguments_are_named(world: World) -> None:
    for change in ({"cpus": 0}, {"image": "-x"}, {"gpus": "all"}, {"env": {"A=B": "x"}}, {"network": "host"}):
        refused = world.op("attempt_start", **world.spec("true", **change))
        assert refused.error is not None
        assert refused.error["code"] == "bad_args"
        assert next(iter(change)) in refused.error["message"]
    unknown = world.op("reboot")
    assert unknown.error is not None
    assert unknown.error["code"] == "unknown_kind"


def test_a_running_attempt_is_not_removed(world: World) -> None:
    attempt = world.start("sleep", "100")
    world.running(attempt)
    refused = world.op("attempt_remove", attempt_id=str(attempt))
    assert refused.error is not None
    assert refused.error["code"] == "not_ended"
    world.op("attempt_stop", attempt_id=str(attempt), grace_s=0, reason="user")
    assert world.ended(attempt).data["signal"] == "SIGKILL"


def test_inventory_and_samples(world: World, sandbox_node: SandboxNode) -> None:
    inventory = world.op("inventory").data
    assert [gpu["uuid"] for gpu in inventory["gpus"]] == [gpu.uuid for gpu in sandbox_node.gpus]
    assert inventory["nvml_error"] is None
    assert inventory["boot_id"] == sandbox_node.boot_id() == world.hub.hellos[-1].boot_id
    assert set(inventory["cdi_devices"]) >= {gpu.uuid for gpu in sandbox_node.gpus}
    assert inventory["podman"].startswith("4.")
    attempt = world.start("sleep", "100", gpus=[sandbox_node.gpus[0].uuid])
    world.running(attempt)
    seen = len(world.hub.samples)
    world.hub.wait(lambda: len(world.hub.samples) > seen)
    first = world.hub.samples[-1].gpus[0]
    assert first["uuid"] == sandbox_node.gpus[0].uuid
    assert isinstance(first["temperature_c"], int)
    world.op("attempt_stop", attempt_id=str(attempt), grace_s=0, reason="user")
    world.ended(attempt)


def test_image_present(world: World) -> None:
    assert world.op("image_present", image=world.image).data == {"present": True}
    assert world.op("image_present", image="localhost/nothing:1").data == {"present": False}
