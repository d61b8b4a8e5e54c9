"""Sections to facts to checks."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from workers.nodeops import Facts, judge
from workers.nodeops.facts import parse, script, split, version_tuple

GOOD = {
    "user": "1000\nalice",
    "sudo": "rc=0",
    "os": 'PRETTY_NAME="Ubuntu 24.04"\nID=ubuntu\nLinux 6.8.0 x86_64',
    "python": "3.12.3",
    "podman": json.dumps({"version": {"Version": "4.9.3"}, "host": {"ociRuntime": {"name": "crun"}}}),
    "conmon": "/usr/bin/conmon",
    "nvidia": "NVRM version\n/dev/nvidia0\n/dev/nvidia1",
    "smi": "GPU-aa-1\nGPU-bb-2\nrc=0",
    "cdi": '- name: "0"\n- name: GPU-aa-1\n- name: GPU-bb-2\n',
    "disk": "/dev/sda1 100000000 50000000 50000000 50% /",
    "cgroup": "1",
    "clock": "1000.5",
}


def facts(**changes: str) -> Facts:
    return parse({**GOOD, **changes}, noise_bytes=0, now=1000.0, leeway_s=0.2)


def failed(found: Facts) -> set[str]:
    return {check.code for check in judge(found) if not check.ok}


def test_a_good_node() -> None:
    found = facts()
    assert failed(found) == set()
    assert (found.user, found.os, found.kernel) == ("alice", "Ubuntu 24.04", "Linux 6.8.0 x86_64")
    assert (found.disk_free_mib, found.clock_skew_s, found.nvidia_devices) == (48828, 0.5, 2)


def test_each_fault_has_its_check() -> None:
    cases = {
        "root": {"sudo": "sudo: a password is required\nrc=1"},
        "python": {"python": ""},
        "podman": {"podman": GOOD["podman"].replace("4.9.3", "4.2.0")},
        "runtime": {"conmon": ""},
        "nvidia": {"smi": "GPU-aa-1\nUnable to determine the device handle for GPU0001: GPU is lost\nrc=15"},
        "cdi": {"cdi": "- name: GPU-aa-1"},
        "disk": {"disk": "/dev/sda1 100 50 50 50% /"},
        "clock": {"clock": "1100"},
        "cgroups": {"cgroup": "0"},
    }
    for code, change in cases.items():
        assert failed(facts(**change)) == {code}, code
    assert failed(facts(smi="rc=127", cdi="")) == {"nvidia"}
    assert failed(facts(podman="")) == {"podman", "runtime"}


def test_a_lost_gpu_is_told_but_does_not_shut_out_the_others() -> None:
    nvidia = next(check for check in judge(facts(smi="GPU-aa-1\nGPU is lost\nrc=15")) if check.code == "nvidia")
    assert (nvidia.ok, nvidia.required) == (False, False)
    assert "GPU is lost" in nvidia.detail


def test_noise_is_told() -> None:
    noisy = parse(GOOD, noise_bytes=30, now=1000.0, leeway_s=1)
    assert failed(noisy) == {"shell_noise"}
    assert noisy.clock_skew_s == 0


def test_every_check_has_a_fix_and_the_sudo_fix_names_the_user() -> None:
    checks = judge(facts(sudo="rc=1"))
    assert all(check.fix and check.title and check.detail for check in checks)
    assert "alice ALL=" in checks[0].fix


@given(st.dictionaries(st.sampled_from([*GOOD, "other"]), st.text()), st.integers(0))
def test_nothing_makes_the_parser_raise_or_invent(sections: dict[str, str], noise: int) -> None:
    found = parse(sections, noise_bytes=noise, now=1000.0, leeway_s=0.2)
    assert len(judge(found)) == 16
    assert found.disk_free_mib is None or found.disk_free_mib >= 0


@given(st.binary())
def test_split_takes_any_output(output: bytes) -> None:
    noise, sections = split(output, "0" * 16)
    assert noise == output or sections


def test_output_can_not_pose_as_a_section() -> None:
    mark, other = "a" * 16, "b" * 16
    output = f"motd\n#{other} user\n0\n\n#{mark} user\n1000\nbob\n#{other} sudo\nrc=0\n\n#{mark} end\n".encode()
    noise, sections = split(output, mark)
    assert noise.startswith(b"motd")
    assert set(sections) == {"user", "end"}


def test_the_script_is_plain_sh() -> None:
    text = script("a" * 16)
    assert text.count("#" + "a" * 16) == 18
    assert text.endswith("exit 0\n")


def test_versions() -> None:
    assert version_tuple("4.9.3-dev") == (4, 9, 3)
    assert version_tuple("4.10") > version_tuple("4.3")
    assert version_tuple("dev") == ()
