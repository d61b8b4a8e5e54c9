"""The transport against a stock sshd, and the stand-in of other tests against the same contract."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator

import pytest

from portal.sandbox import SandboxNode
from tests.nodes.agent_fixtures import dial, host_key
from tests.nodes.transport_contract import TransportContract
from tests.unit.ssh.local import LocalTransport
from workers.nodeops import install_public_key
from workers.ssh import (
    AuthFailed,
    HostKey,
    HostKeyMismatch,
    HostUnreachable,
    SshError,
    SshTarget,
    Transport,
    connect,
    generate_key_pair,
    scan_host_key,
)

pytestmark = pytest.mark.nodes


class TestStandIn(TransportContract):
    @pytest.fixture
    def transport(self) -> Iterator[Transport]:
        with LocalTransport() as transport:
            yield transport


class TestReal(TransportContract):
    @pytest.fixture
    def transport(self, sandbox_node: SandboxNode) -> Iterator[Transport]:
        with dial(sandbox_node) as transport:
            yield transport


def target(node: SandboxNode, user: str = "root") -> SshTarget:
    return SshTarget(node.address, node.port, user)


def test_scan_and_fingerprint(sandbox_node: SandboxNode) -> None:
    found = scan_host_key(sandbox_node.address, 22)
    assert found == host_key(sandbox_node)
    assert found.fingerprint == sandbox_node.host_key_fingerprint


def test_password_once_then_key(sandbox_node: SandboxNode) -> None:
    private, public = generate_key_pair("berth test")
    pinned = host_key(sandbox_node)
    with connect(target(sandbox_node), host_key=pinned, private_key=None, password=sandbox_node.password) as first:
        install_public_key(first, public)
        install_public_key(first, public)
        assert first.exec("grep -c 'berth test' ~/.ssh/authorized_keys", timeout_s=20).stdout == b"1\n"
    with connect(target(sandbox_node), host_key=pinned, private_key=private) as second:
        assert second.exec("id -un", timeout_s=20).stdout == b"root\n"
        second.exec("sed -i '/berth test/d' ~/.ssh/authorized_keys", timeout_s=20)


def test_wrong_key_and_password(sandbox_node: SandboxNode) -> None:
    private, _ = generate_key_pair("stranger")
    with pytest.raises(AuthFailed, match="authorized_keys"):
        connect(target(sandbox_node), host_key=host_key(sandbox_node), private_key=private)
    with pytest.raises(AuthFailed, match="password"):
        connect(target(sandbox_node), host_key=host_key(sandbox_node), private_key=None, password="wrong")
    with pytest.raises(AuthFailed, match="can't be read"):
        connect(target(sandbox_node), host_key=host_key(sandbox_node), private_key="nonsense")


def test_another_host_key(sandbox_node: SandboxNode) -> None:
    _, public = generate_key_pair("")
    kind, key = public.split()
    with pytest.raises(HostKeyMismatch, match="reinstalled"):
        connect(target(sandbox_node), host_key=HostKey(kind, key), private_key="unused")
    rsa = HostKey("ssh-rsa", base64.b64encode(b"\0\0\0\x07ssh-rsa").decode())
    with pytest.raises(HostKeyMismatch, match="ssh-rsa"):
        connect(target(sandbox_node), host_key=rsa, private_key="unused")


def test_nobody_there() -> None:
    with pytest.raises(HostUnreachable, match="nothing listens"):
        scan_host_key("127.0.0.1", 1)
    with pytest.raises(HostUnreachable, match="no known name"):
        scan_host_key("no such host.invalid", 22)


def test_200_commands_at_once_with_a_stock_sshd(sandbox_node: SandboxNode) -> None:
    config = sandbox_node.run(["sshd", "-T"]).stdout
    assert "maxsessions 10\n" in config
    answers: list[bytes] = []
    failures: list[SshError] = []

    def one(number: int) -> None:
        try:
            answers.append(transport.exec(f"echo {number}", timeout_s=100).stdout)
        except SshError as error:
            failures.append(error)

    with dial(sandbox_node) as transport:
        threads = [threading.Thread(target=one, args=(number,)) for number in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures
    assert sorted(int(answer) for answer in answers) == list(range(200))


def test_a_dead_connection_is_noticed(fresh_node: Callable[..., SandboxNode]) -> None:
    node = fresh_node(gpus=1)
    with dial(node) as transport:
        stream = transport.open_stream("sleep 1000")
        stream.set_deadline(60)
        node.power_cut()
        with pytest.raises(SshError):
            transport.exec("true", timeout_s=10)
        assert stream.recv(1) == b""
        assert not transport.alive
