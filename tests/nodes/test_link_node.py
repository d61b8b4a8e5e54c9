"""The link on a node as nodes are: noisy shells, many operations at once, frozen for a while."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from portal.sandbox import SandboxNode
from tests.nodes.agent_fixtures import dial, world_of
from tests.unit.link.recorder import Recorder
from workers.link import AgentLink, Op
from workers.nodeops import AGENT_HOME, attach_command, forget_links, install_agent, preflight

pytestmark = [pytest.mark.nodes, pytest.mark.timeout(180)]

NOISE = "echo Welcome to the cluster; printf 'BERTH nothing 1\\n\\0\\377'; echo quota exceeded >&2\n"


@pytest.fixture
def noisy(sandbox_node: SandboxNode) -> Iterator[SandboxNode]:
    """Bash under sshd reads .bashrc even for a command."""
    sandbox_node.run(["cp", "-a", "/etc/passwd", "/etc/passwd.kept"])
    sandbox_node.run(["sed", "-i", "s#^\\(root:.*:\\)[^:]*$#\\1/bin/bash#", "/etc/passwd"])
    sandbox_node.write_file("/root/.bashrc", NOISE)
    yield sandbox_node
    sandbox_node.run(["mv", "/etc/passwd.kept", "/etc/passwd"])
    sandbox_node.run(["rm", "/root/.bashrc"])


def test_noise_harms_nothing_and_preflight_tells_of_it(noisy: SandboxNode, sandbox_image: str) -> None:
    world = world_of(noisy, sandbox_image)
    try:
        attempt = world.start("echo", "quiet")
        assert world.ended(attempt).data["exit_code"] == 0
        assert world.log(attempt) == b"quiet\n"
        checks = {check.code: check for check in preflight(world.transport)}
    finally:
        world.close()
    assert not checks["shell_noise"].ok
    assert {code for code, check in checks.items() if check.required and not check.ok} == set()


def test_preflight_of_a_good_node(sandbox_node: SandboxNode) -> None:
    with dial(sandbox_node) as transport:
        checks = preflight(transport)
    assert [check for check in checks if not check.ok] == []


def test_200_operations_at_once_over_one_link(sandbox_node: SandboxNode, sandbox_image: str) -> None:
    world = world_of(sandbox_node, sandbox_image)
    try:
        ids = [str(uuid.uuid4()) for _ in range(200)]
        for number, op in enumerate(ids):
            kind, args = ("noop", {}) if number % 2 else ("image_present", {"image": sandbox_image})
            world.link.send_op(Op(op, 1, kind, args, 120))
        world.hub.wait(lambda: set(ids) <= set(world.hub.results), 150)
        assert all(world.hub.results[op].ok for op in ids)
        world.until(lambda: world.sh(f"ls {AGENT_HOME}/record/results") == "", what="results acknowledged")
    finally:
        world.close()


def test_ten_attempts_at_once(sandbox_node: SandboxNode, sandbox_image: str) -> None:
    world = world_of(sandbox_node, sandbox_image)
    try:
        attempts = [world.start("sh", "-c", f"echo {number}; exit {number}", memory_mib=32) for number in range(10)]
        for number, attempt in enumerate(attempts):
            assert world.ended(attempt).data["exit_code"] == number
            assert world.log(attempt) == f"{number}\n".encode()
        for attempt in attempts:
            assert world.op("attempt_remove", attempt_id=str(attempt)).ok
    finally:
        world.close()


def test_a_frozen_node_thaws_and_goes_on(sandbox_node: SandboxNode, sandbox_image: str) -> None:
    world = world_of(sandbox_node, sandbox_image)
    try:
        attempt = world.start("sh", "-c", "i=0; while [ $i -lt 40 ]; do echo $i; sleep 0.1; i=$((i+1)); done")
        world.running(attempt)
        sandbox_node.freeze()
        try:
            world.hub.wait(lambda: not world.linked, 30)
            assert "silent" in world.hub.closed[-1]
        finally:
            sandbox_node.thaw()
        world.transport.close()
        world.attach()
        end = world.ended(attempt)
        assert end.data["exit_code"] == 0
        world.check_hash(attempt, end)
        assert world.log(attempt).split() == [str(number).encode() for number in range(40)]
        assert len(world.journal(attempt, "start")) == 1
    finally:
        world.close()


def test_an_old_link_token_is_refused_until_the_node_is_enrolled_anew(
    sandbox_node: SandboxNode, sandbox_image: str
) -> None:
    world = world_of(sandbox_node, sandbox_image)
    try:
        stale = Recorder()
        with dial(sandbox_node) as transport:
            AgentLink(transport, version=world.agent.version, link_token=3, handler=stale).run()
            assert "stale_link_token" in stale.closed[-1]
            assert world.linked
            forget_links(transport)
            fresh = Recorder()
            link = AgentLink(transport, version=world.agent.version, link_token=3, handler=_ClosesAtOnce(fresh))
            _ClosesAtOnce.link = link
            link.run()
        assert len(fresh.hellos) == 1
        world.hub.wait(lambda: not world.linked)
        assert "superseded" in world.hub.closed[-1]
    finally:
        world.close()


class _ClosesAtOnce(Recorder):
    """A hub that leaves after the hello."""

    link: AgentLink

    def __init__(self, kept: Recorder) -> None:
        super().__init__()
        self.hellos = kept.hellos

    def on_alive(self, alive: object) -> None:
        self.link.close()


def test_installing_converges_and_keeps_two(sandbox_node: SandboxNode, sandbox_image: str) -> None:
    world = world_of(sandbox_node, sandbox_image)
    try:
        folder = f"{AGENT_HOME}/agent"
        world.sh(f"find {folder} -name '*.pyz' -not -name {world.agent.version}.pyz -delete")
        for name in ("aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"):
            world.sh(
                f"echo x > {folder}/{name}.pyz; touch -d '2001-01-0{1 + 'abc'.index(name[0])}' {folder}/{name}.pyz"
            )
        world.sh(f"echo damaged > {folder}/{world.agent.version}.pyz")
        install_agent(world.transport, world.agent.path, world.agent.version)
        install_agent(world.transport, world.agent.path, world.agent.version)
        left = world.sh(f"ls {folder}").split()
        assert left == sorted([f"{world.agent.version}.pyz", "cccccccccccc.pyz"])
        assert world.sh(f"stat -c %s {folder}/{world.agent.version}.pyz").strip() == str(
            world.agent.path.stat().st_size
        )
        world.sh(f"rm {folder}/cccccccccccc.pyz")
    finally:
        world.close()


def test_a_node_without_python_says_so(sandbox_node: SandboxNode) -> None:
    with dial(sandbox_node) as transport:
        command = attach_command("0123456789ab", "0" * 32).replace("(3, 8)", "(9, 9)")
        stream = transport.open_stream(command)
        stream.set_deadline(20)
        assert stream.recv(100) == b""
        assert stream.last_words == "no Python 3.8 or later on this node"
        stream.close()
