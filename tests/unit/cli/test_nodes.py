"""The verbs of nodes: the host key is confirmed by a person, and what stops enrolment is told exactly."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from cli import enrol
from tests.unit.cli.conftest import Berth
from tests.unit.cli.portal import FINGERPRINT, TIME, FakePortal, gpu_of, problem

ADD = ("node", "add", "gpu-01", "10.0.0.11")


def enrols(portal: FakePortal, *, preflight: list[dict[str, Any]] | None = None) -> None:
    """Makes each look at the node find it one step further."""

    def step(node: dict[str, Any]) -> None:
        if not node["offered_fingerprint"]:
            node.update(offered_fingerprint=FINGERPRINT, state_detail=f"waiting for someone to confirm {FINGERPRINT}")
        elif node["host_key_fingerprint"] and preflight:
            node.update(preflight=preflight, state_detail="preflight found: podman")
        elif node["host_key_fingerprint"]:
            node.update(state="ready", state_detail="", gpus=[gpu_of(0), gpu_of(1)])

    portal.on_get_node = step


class Terminal(io.StringIO):
    """A person at a terminal."""

    def isatty(self) -> bool:
        return True


def test_add_confirms_the_key_and_waits_until_ready(signed_in: Berth, portal: FakePortal) -> None:
    enrols(portal)
    outcome = signed_in(*ADD, "--user", "admin", "--port", "2222", stdin=Terminal("y\n"))
    assert outcome.code == 0, outcome.err
    assert outcome.text == "Node gpu-01 is ready with 2 × NVIDIA H100.\n"
    assert f"shows this host key:\n  {FINGERPRINT}\n" in outcome.err
    posted = [json.loads(r.content) for r in portal.requests if r.method == "POST"]
    assert posted == [
        {"name": "gpu-01", "address": "10.0.0.11", "port": 2222, "ssh_user": "admin"}, {"fingerprint": FINGERPRINT},
    ]  # fmt: skip


def test_add_stops_when_the_key_is_not_confirmed(signed_in: Berth, portal: FakePortal) -> None:
    enrols(portal)
    outcome = signed_in(*ADD, stdin=Terminal("\n"))
    assert outcome.code == 1
    assert "nothing was sent to the node" in outcome.err
    assert portal.nodes["gpu-01"]["host_key_fingerprint"] == ""


def test_add_without_a_terminal_says_how_to_confirm(signed_in: Berth, portal: FakePortal) -> None:
    enrols(portal)
    outcome = signed_in(*ADD)
    assert outcome.code == 2
    assert f"berth node trust gpu-01 --fingerprint {FINGERPRINT}" in outcome.err
    assert signed_in("node", "trust", "gpu-01", "--fingerprint", "SHA256:other").code == 2
    assert signed_in("node", "trust", "gpu-01", "--fingerprint", FINGERPRINT).text.endswith("is confirmed.\n")
    assert "already" in signed_in("node", "trust", "gpu-01").text


def test_add_with_yes_and_a_password(signed_in: Berth, portal: FakePortal) -> None:
    enrols(portal)
    outcome = signed_in(*ADD, "--yes", "--password-stdin", "--json", stdin="secret\n")
    assert outcome.json()["state"] == "ready"
    assert json.loads(portal.requests[0].content)["password"] == "secret"
    assert "secret" not in outcome.err + outcome.text


def test_add_with_another_fingerprint_than_given(signed_in: Berth, portal: FakePortal) -> None:
    enrols(portal)
    outcome = signed_in(*ADD, "--fingerprint", "SHA256:" + "x" * 43)
    assert outcome.code == 1
    assert "another host key than the one you gave" in outcome.err
    assert FINGERPRINT in outcome.err


def test_add_tells_every_failed_check_with_its_fix(signed_in: Berth, portal: FakePortal) -> None:
    check = {"code": "podman", "ok": False, "title": "No container runtime", "detail": "podman is not installed",
             "fix": "apt-get install podman", "required": True}  # fmt: skip
    enrols(portal, preflight=[check, {**check, "ok": True}])
    outcome = signed_in(*ADD, "--yes")
    assert outcome.code == 1
    assert outcome.err.splitlines()[-4:] == [
        "berth: The node is not fit yet.",
        "  ✗ No container runtime: podman is not installed",
        "      apt-get install podman",
        "  Mend it, then: berth node show gpu-01   Or give it up: berth node retire gpu-01",
    ]
    assert "apt-get install podman" in signed_in("node", "show", "gpu-01").text


def test_add_without_waiting_and_in_vain(signed_in: Berth, portal: FakePortal) -> None:
    enrols(portal)
    assert "is enrolling" in signed_in(*ADD, "--yes", "--no-wait").text
    portal.on_get_node = lambda node: node.update(state_detail="connection refused")
    outcome = signed_in("node", "add", "gpu-02", "10.0.0.12", "--timeout", "0s")
    assert outcome.code == 1
    assert "gpu-02 is not ready after 0 s" in outcome.err


def test_add_of_an_address_that_nobody_answers_is_told_soon(
    signed_in: Berth, portal: FakePortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enrol, "UNREACHED_S", 0.0)
    portal.on_get_node = lambda node: node.update(state_detail="connection refused", offered_fingerprint="")
    outcome = signed_in(*ADD, "--yes")
    assert outcome.code == 1
    assert outcome.err.splitlines()[-4:] == [
        "berth: Node gpu-01 does not answer at root@10.0.0.11: connection refused.",
        "  The address is wrong: berth node retire gpu-01, then add it again.",
        "  It is switched off or behind a firewall: mend that; the portal tries again every few seconds.",
        "  See how it stands: berth node show gpu-01",
    ]


def test_list_and_show(signed_in: Berth, portal: FakePortal) -> None:
    assert "No nodes yet" in signed_in("node", "ls").err
    gpus = [gpu_of(0, share_free=0), gpu_of(1), gpu_of(2, health="lost", health_detail="Xid 79")]
    jobs = [{"job_id": "1", "name": "digits", "tenant": "lab", "gpu_uuid": "GPU-0"}]
    portal.add_node(state="ready", state_detail="", gpus=gpus, jobs=jobs, cpu_milli=8000, memory_mib=16384,
                    last_alive_at=TIME, clock_skew_ms=-3, host_key_fingerprint=FINGERPRINT)  # fmt: skip
    assert signed_in("node", "ls").text.splitlines()[1].split()[:5] == ["gpu-01", "ready", "1", "of", "3"]
    assert signed_in("node", "ls", "-o", "name").text == "gpu-01\n"
    assert signed_in("node", "ls", "--json").json()[0]["name"] == "gpu-01"
    shown = signed_in("node", "show", "gpu-01").text
    assert "GPU-0: job digits" in shown
    assert "GPU-1: free" in shown
    assert "GPU-2: lost Xid 79" in shown
    assert "-3 ms against the portal" in shown
    assert signed_in("node", "ls", "--state", "redy").err.endswith("Did you mean 'ready'?\n")


def test_gpus_of_all_nodes(signed_in: Berth, portal: FakePortal) -> None:
    assert "No GPUs yet" in signed_in("gpu", "ls").err
    gpus = [gpu_of(0, share_free=0), gpu_of(1), gpu_of(2, health="failing", health_detail="Xid 119: reset the GPU")]
    jobs = [{"job_id": "1", "name": "digits", "tenant": "lab", "gpu_uuid": "GPU-0"}]
    portal.add_node(state="ready", state_detail="", gpus=gpus, jobs=jobs)
    lines = signed_in("gpu", "ls").text.splitlines()
    assert [line.split()[1] for line in lines[1:]] == ["0", "1", "2"]
    assert "digits" in lines[1]
    assert lines[3].endswith("Xid 119: reset the GPU")
    assert signed_in("gpu", "ls", "--sick", "-o", "name").text == "GPU-2\n"
    assert [gpu["uuid"] for gpu in signed_in("gpu", "ls", "--node", "gpu-01", "--json").json()][:1] == ["GPU-0"]
    assert signed_in("gpu", "ls", "--node", "nowhere").code == 4


@pytest.mark.parametrize(
    ("verb", "state", "told"),
    [("cordon", "cordoned", "gets no new jobs"), ("uncordon", "ready", "takes jobs again"),
     ("drain", "draining", "waits for its own to end"),
     ("maintenance", "maintenance", "is in maintenance until it is uncordoned"),
     ("retire", "retired", "out of service for good")],
)  # fmt: skip
def test_acts(signed_in: Berth, portal: FakePortal, verb: str, state: str, told: str) -> None:
    portal.add_node()
    assert told in signed_in("node", verb, "gpu-01").text
    assert signed_in("node", verb, "gpu-01", "--json").json()["state"] == state


def test_a_reason_is_passed_on(signed_in: Berth, portal: FakePortal) -> None:
    portal.add_node()
    signed_in("node", "drain", "gpu-01", "--reason", "driver update")
    assert portal.nodes["gpu-01"]["state_detail"] == "driver update"


def test_nodes_are_for_operators(signed_in: Berth, portal: FakePortal) -> None:
    portal.before = lambda request: problem(404, "not_found", "Not found.")
    outcome = signed_in("node", "ls")
    assert outcome.code == 4
    assert "operators only" in outcome.err
