"""Login shell, control groups, kernel, driver and fabric: sections to facts to checks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.nodeops.host import HOST_PROBES, parse_host, refusal
from workers.nodeops.host_checks import host_checks

GOOD = {
    "login_shell": "/bin/bash",
    "inodes": "/dev/sda1 6553600 400000 6153600 7% /",
    "controllers": "cpuset cpu io memory hugetlb pids",
    "network": "netns\nnft\nvxlan",
    "nvidia": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024",
    "smi": "GPU-aa-1\nrc=0",
    "fabric": "    Fabric\n        State                  : Completed\n        Status                 : Success",
}


def failed(**changes: str) -> set[str]:
    return {check.code for check in host_checks(parse_host({**GOOD, **changes})) if not check.ok}


def test_a_good_host_has_no_fault() -> None:
    assert failed() == set()
    assert parse_host(GOOD).driver_version == "550.54.15"


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("login_shell", {"login_shell": "/usr/bin/fish"}),
        ("login_shell", {"login_shell": "/bin/csh"}),
        ("cgroup_controllers", {"controllers": "cpu\npids"}),
        ("driver_mismatch", {"smi": "Failed to initialize NVML: Driver/library version mismatch\nrc=18"}),
        ("fabric", {"fabric": "    Fabric\n        State : In Progress\n        Status : N/A"}),
        ("inodes", {"inodes": "/dev/sda1 6553600 6553590 10 100% /"}),
        ("network", {"network": "netns\nnft"}),
    ],
)
def test_each_fault_has_its_check(code: str, changes: dict[str, str]) -> None:
    assert failed(**changes) == {code}


def test_both_versions_are_shown_side_by_side() -> None:
    smi = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.90\nrc=18"
    found = next(c for c in host_checks(parse_host({**GOOD, "smi": smi})) if c.code == "driver_mismatch")
    assert found.detail == "kernel module 550.54.15, library 550.90"


@pytest.mark.parametrize("state", ["Not Supported", "N/A", "Completed"])
def test_a_host_without_nvswitch_is_healthy(state: str) -> None:
    assert failed(fabric=f"    Fabric\n        State : {state}") == set()


def test_silence_is_unknown_and_no_fault() -> None:
    assert {c.code for c in host_checks(parse_host({})) if not c.ok} == set()
    assert parse_host({"inodes": "none 0 0 0 - /"}).inodes_free is None


def test_a_refused_login_says_what_to_do() -> None:
    expired = refusal("WARNING: Your password has expired.\nPassword change required but no TTY available.")
    assert expired is not None
    assert expired[0] == "password_expired"
    closed = refusal("This account is currently not available.")
    assert closed is not None
    assert closed[0] == "no_login_shell"
    assert refusal("bash: warning: setlocale: LC_ALL: cannot change locale") is None


@given(st.dictionaries(st.sampled_from([*GOOD, *(name for name, _ in HOST_PROBES)]), st.text()))
def test_nothing_makes_the_parser_raise_or_invent(sections: dict[str, str]) -> None:
    found = parse_host(sections)
    assert len(host_checks(found)) == 6
    assert found.inodes_free is None or found.inodes_free >= 0
