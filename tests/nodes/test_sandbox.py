"""Sandbox nodes behave like machines: login, identity, power, network, freezing, removal."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paramiko
import pytest

from portal.sandbox import SandboxCluster, SandboxError, SandboxNode
from tests.sandboxes import NodeFactory, unique_cluster

pytestmark = pytest.mark.nodes


def until(condition: Callable[[], bool], *, timeout_s: float = 20) -> bool:
    """Wait for a condition, at most `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def banner(node: SandboxNode, *, timeout_s: float = 2) -> str:
    """Return the first bytes that the node's sshd says, or why there are none."""
    try:
        with socket.create_connection((node.address, node.port), timeout=timeout_s) as connection:
            return connection.recv(4).decode() or "closed"
    except TimeoutError:
        return "timeout"
    except OSError as error:
        return f"refused {error.errno}"


def ssh(node: SandboxNode, folder: Path, command: str, host_key: str) -> subprocess.CompletedProcess[str]:
    """Log in with the OpenSSH client, which trusts only `host_key`."""
    known = folder / "known_hosts"
    known.write_text(f"{node.address} {host_key}\n")
    options = ["StrictHostKeyChecking=yes", f"UserKnownHostsFile={known}", "BatchMode=yes", "ConnectTimeout=5"]
    argv = ["ssh", "-F", "none", "-i", str(node.private_key_path), *(f"-o{word}" for word in options)]
    return subprocess.run(
        [*argv, f"{node.user}@{node.address}", command], capture_output=True, text=True, timeout=30, check=False
    )


def test_login_with_the_pinned_key(sandbox_node: SandboxNode, tmp_path: Path) -> None:
    done = ssh(sandbox_node, tmp_path, "hostname; command -v python3; echo $PATH", sandbox_node.host_public_key)
    assert done.returncode == 0, done.stderr
    hostname, python, path = done.stdout.split()
    assert (hostname, python) == ("shared", "/usr/bin/python3")
    assert "pyenv" not in path
    assert "pyenv" not in done.stderr


def test_login_with_the_nodes_password(sandbox_node: SandboxNode, fresh_node: NodeFactory) -> None:
    with paramiko.SSHClient() as client:
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        kind, key = sandbox_node.host_public_key.split()[:2]
        client.get_host_keys().add(sandbox_node.address, kind, paramiko.PKey.from_type_string(kind, b64decode(key)))
        login: dict[str, Any] = {
            "username": sandbox_node.user,
            "allow_agent": False,
            "look_for_keys": False,
            "timeout": 10,
        }
        client.connect(sandbox_node.address, password=sandbox_node.password, **login)
        assert client.exec_command("hostname", timeout=10)[1].read() == b"shared\n"
        client.close()
        with pytest.raises(paramiko.AuthenticationException):
            client.connect(sandbox_node.address, password=fresh_node().password, **login)


def test_another_host_key_is_refused(sandbox_node: SandboxNode, fresh_node: NodeFactory, tmp_path: Path) -> None:
    done = ssh(sandbox_node, tmp_path, "true", fresh_node().host_public_key)
    assert done.returncode == 255
    assert "Host key verification failed" in done.stderr


def test_fingerprint_is_what_openssh_prints(sandbox_node: SandboxNode) -> None:
    printed = subprocess.run(
        ["ssh-keygen", "-l", "-f", "-"], input=sandbox_node.host_public_key, capture_output=True, text=True, check=True
    ).stdout
    assert sandbox_node.host_key_fingerprint in printed


def test_identities_differ(sandbox_node: SandboxNode, fresh_node: NodeFactory) -> None:
    other = fresh_node()
    both = (sandbox_node, other)
    assert len({gpu.uuid for node in both for gpu in node.gpus}) == 16
    assert len({gpu.serial for node in both for gpu in node.gpus}) == 16
    assert sandbox_node.host_key_fingerprint != other.host_key_fingerprint
    assert sandbox_node.address != other.address
    seen = [node.run(["cat", "/proc/sys/kernel/random/boot_id", "/etc/machine-id"]).stdout.split() for node in both]
    assert len({word for words in seen for word in words}) == 4
    assert [words[0] for words in seen] == [node.boot_id() for node in both]


def test_stock_limits_of_sshd(sandbox_node: SandboxNode) -> None:
    effective = sandbox_node.run(["/usr/sbin/sshd", "-T"]).stdout
    assert re.search(r"^maxsessions 10$", effective, re.MULTILINE)
    assert re.search(r"^maxstartups 10:30:100$", effective, re.MULTILINE)


def test_sshd_comes_back_after_it_was_killed(fresh_node: NodeFactory) -> None:
    node = fresh_node()
    node.run(["sh", "-c", "kill -9 $(ps -C sshd -o pid= | head -1)"])
    assert until(lambda: banner(node) == "SSH-")


def test_memory_and_cpus_are_those_that_were_ordered(fresh_node: NodeFactory) -> None:
    node = fresh_node(cpus=4, host_memory_mib=512)
    total = node.run(["grep", "MemTotal", "/proc/meminfo"]).stdout.split()[1]
    assert int(total) == 512 * 1024
    assert node.run(["/usr/bin/python3", "-c", "import os; print(os.cpu_count())"]).stdout.strip() == "4"
    limit = node.run(["cat", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]).stdout
    assert int(limit) == 512 << 20


def test_power_cut_loses_run_and_keeps_the_disk(fresh_node: NodeFactory) -> None:
    node = fresh_node()
    first_boot, fingerprint, gpus = node.boot_id(), node.host_key_fingerprint, node.gpus
    kept = ("/var/lib/berth/record", "/etc/berth.conf", "/root/.ssh/authorized_keys2", "/opt/tool")
    for path in (*kept, "/run/gone", "/tmp/gone"):
        node.write_file(path, "text")
    node.power_cut()
    assert node.status() == "off"
    assert banner(node) != "SSH-"
    node.power_cut()
    node.boot()
    assert node.boot_id() != first_boot
    assert node.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout.strip() == node.boot_id()
    assert float(node.run(["cat", "/proc/uptime"]).stdout.split()[0]) < 60
    assert (node.host_key_fingerprint, node.gpus) == (fingerprint, gpus)
    assert node.run(["cat", *kept]).stdout == "text" * len(kept)
    assert node.run(["ls", "/run/gone", "/tmp/gone"]).returncode == 2


def test_power_cut_sends_no_goodbye(fresh_node: NodeFactory) -> None:
    node = fresh_node()
    with socket.create_connection((node.address, node.port), timeout=5) as connection:
        assert connection.recv(4) == b"SSH-"
        connection.settimeout(1)
        connection.recv(1024)
        node.power_cut()
        with pytest.raises(TimeoutError):
            connection.recv(1)


def test_rc_local_runs_at_each_boot(fresh_node: NodeFactory) -> None:
    node = fresh_node()
    node.write_file("/etc/rc.local", "#!/bin/sh\necho booted >> /var/lib/boots\n", mode=0o755)
    for _ in range(2):
        node.power_cut()
        node.boot()
    assert until(lambda: node.run(["cat", "/var/lib/boots"]).stdout == "booted\n" * 2)


def test_partition_and_heal(fresh_node: NodeFactory) -> None:
    node = fresh_node()
    before = node.boot_id()
    node.partition()
    assert node.status() == "partitioned"
    assert banner(node, timeout_s=1) != "SSH-"
    assert node.run(["true"]).returncode == 0
    node.heal()
    assert until(lambda: banner(node) == "SSH-")
    assert node.boot_id() == before


def test_a_connection_survives_a_short_partition(fresh_node: NodeFactory) -> None:
    node = fresh_node()
    with socket.create_connection((node.address, node.port), timeout=20) as connection:
        assert connection.recv(4) == b"SSH-"
        connection.recv(1024)
        node.partition()
        connection.sendall(b"not ssh at all\r\n")
        node.heal()
        assert connection.recv(1024)


def test_freeze_and_thaw(fresh_node: NodeFactory) -> None:
    node = fresh_node()
    node.freeze()
    assert node.status() == "frozen"
    pinged = subprocess.run(["ping", "-c1", "-W2", node.address], capture_output=True, check=False)
    assert pinged.returncode == 0
    assert banner(node, timeout_s=1) == "timeout"
    with pytest.raises(SandboxError, match="frozen; thaw it first"):
        node.run(["true"])
    node.thaw()
    assert until(lambda: banner(node) == "SSH-")


def test_power_cut_of_a_frozen_node(fresh_node: NodeFactory) -> None:
    node = fresh_node()
    node.freeze()
    node.power_cut()
    assert node.status() == "off"
    node.boot()
    assert banner(node) == "SSH-"


def test_slow_and_unslow(fresh_node: NodeFactory) -> None:
    node = fresh_node()
    node.slow(rate="2mbit")
    assert node.status() == "slow"
    assert "2Mbit" in node.run(["tc", "qdisc", "show", "dev", "eth0"]).stdout
    node.unslow()
    node.unslow()
    assert node.status() == "running"
    assert "tbf" not in node.run(["tc", "qdisc", "show", "dev", "eth0"]).stdout


def test_run_is_bounded(sandbox_node: SandboxNode) -> None:
    with pytest.raises(SandboxError, match=r"did not end within 0\.5 s"):
        sandbox_node.run(["sleep", "60"], timeout_s=0.5)


def test_run_does_not_wait_for_a_daemon(sandbox_node: SandboxNode) -> None:
    done = sandbox_node.run(["sh", "-c", "setsid sleep 50 & echo started $!"], timeout_s=20)
    assert done.stdout.startswith("started ")
    sandbox_node.run(["kill", "-9", done.stdout.split()[1]])


def test_a_node_does_not_see_the_machine(sandbox_node: SandboxNode) -> None:
    assert "cluster.json" not in sandbox_node.run(["find", "/", "-xdev", "-name", "cluster.json"]).stdout
    assert sandbox_node.run(["ls", "-A", "/root"]).stdout.split() == [".ssh"]
    assert sandbox_node.run(["ls", "/etc/ssh"]).stdout.split() == [
        "ssh_host_ed25519_key",
        "ssh_host_ed25519_key.pub",
        "sshd_config",
    ]


def test_operations_may_be_repeated(sandbox: SandboxCluster, fresh_node: NodeFactory) -> None:
    node = fresh_node(gpus=2)
    boot_id = node.boot_id()
    assert sandbox.add(node.name, gpus=2).boot_id() == boot_id
    node.boot()
    assert node.boot_id() == boot_id
    with pytest.raises(SandboxError, match="exists with other properties"):
        sandbox.add(node.name, gpus=3)
    sandbox.remove(node.name)
    sandbox.remove(node.name)
    with pytest.raises(SandboxError, match="there is no sandbox node"):
        sandbox.node(node.name)


def test_a_half_made_or_damaged_node_can_be_removed(sandbox: SandboxCluster, fresh_node: NodeFactory) -> None:
    half = sandbox.state_dir / "nodes/half"
    half.mkdir(parents=True)
    sandbox.remove("half")
    assert not half.exists()
    node = fresh_node()
    (node.disk.folder / "node.json").write_text("{}")
    sandbox.remove(node.name)
    assert not node.disk.folder.exists()
    assert not node.is_running()


def test_a_second_cluster_of_the_same_name_is_refused(
    sandbox: SandboxCluster, sandbox_node: SandboxNode, tmp_path: Path
) -> None:
    twin = SandboxCluster(tmp_path / "twin", name=sandbox.name, subnet=str(sandbox.subnet))
    with pytest.raises(SandboxError, match="choose another --name"):
        twin.add(sandbox_node.name)
    twin.destroy()
    assert banner(sandbox_node) == "SSH-"
    stranger = unique_cluster(tmp_path / "stranger", "stranger")
    same_network = SandboxCluster(tmp_path / "stranger", name=stranger.name, subnet=str(sandbox.subnet))
    with pytest.raises(SandboxError, match="choose another --subnet"):
        same_network.add("one")
    same_network.destroy()


def traces(cluster: SandboxCluster) -> dict[str, list[str]]:
    """Return what of a cluster can be found on the machine."""
    place = str(cluster.state_dir)
    group = f"berth-{cluster.name}-"
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "cgroup").read_text() + (folder / "mountinfo").read_text()
        except OSError:
            continue
        if group in text or place in text:
            processes.append(folder.name)
    return {
        "mounts": [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if place in line],
        "cgroups": [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{group}*")],
        "links": [path.name for path in Path("/sys/class/net").iterdir() if path.name.startswith(f"{cluster.name}-")],
        "processes": processes,
        "files": [place] if cluster.state_dir.exists() else [],
    }


def test_destroy_leaves_no_trace(sandbox: SandboxCluster, tmp_path: Path) -> None:
    cluster = unique_cluster(tmp_path / "cluster", "trace")
    before = traces(cluster)
    image = cluster.build_mini_image()
    nodes = [cluster.add(name) for name in ("one", "two", "three")]
    for node in nodes:
        assert node.run(["podman", "run", "-d", image, "sleep", "600"]).returncode == 0
    nodes[1].freeze()
    nodes[2].power_cut()
    found = traces(cluster)
    assert found["cgroups"]
    assert found["links"]
    assert found["processes"]
    assert found["files"]
    assert found["mounts"] == []
    cluster.destroy()
    cluster.destroy()
    assert traces(cluster) == before == {key: [] for key in before}
