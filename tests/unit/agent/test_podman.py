"""Facts to commands, and podman's words to causes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.agent.causes import explain, image_absent, name_taken
from workers.agent.container import signal_name, signal_number
from workers.agent.host import _names
from workers.agent.oom import tells_of
from workers.agent.podman import (
    Mounts,
    Podman,
    env_file,
    parse_inspect,
    split_environment,
)
from workers.agent.process import Outcome, runtime_environment
from workers.agent.times import rfc3339_ns

MOUNTS = Mounts("/a/in", "/a/out", "/a/env", "/a/pid", "/a/id", "/a/conmon")
SPEC: dict[str, Any] = {
    "attempt_id": "11111111-1111-4111-8111-111111111111",
    "job_id": "j",
    "tenant_id": "t",
    "image": "localhost/mini:1",
    "command": ["sh", "-c", "echo --privileged"],
    "env": {"SECRET": "hush"},
    "gpus": ["GPU-1", "GPU-2"],
    "cpus": 1.5,
    "memory_mib": 512,
    "shm_mib": 64,
}


def test_start_command() -> None:
    argv = Podman().start(SPEC, MOUNTS, ["KEY"], "epoch1").argv
    assert argv[:5] == ("podman", "--conmon", "/a/conmon", "run", "-d")
    assert argv[-4:] == ("localhost/mini:1", "sh", "-c", "echo --privileged")
    options = argv[5:-4]
    for word in (
        "--pull=never",
        "--log-driver=passthrough",
        "--network=none",
        "--security-opt=no-new-privileges",
        "--pids-limit=4096",
        "--cpus=1.5",
        "--memory=512m",
        "--memory-swap=512m",
        "--shm-size=64m",
        "--device=nvidia.com/gpu=GPU-1",
        "--device=nvidia.com/gpu=GPU-2",
        "--volume=/a/in:/berth/in:ro",
        "--volume=/a/out:/berth/out",
        "--label=berth.attempt=11111111-1111-4111-8111-111111111111",
        "--label=berth.epoch=epoch1",
    ):
        assert word in options
    assert options[options.index("--name") + 1] == "berth-11111111-1111-4111-8111-111111111111"
    assert options[options.index("--secret") + 1].endswith(",type=env,target=KEY")
    assert not any("hush" in word for word in argv)
    assert Podman().create(SPEC, MOUNTS, [], "e").argv[3] == "create"


def test_environment_is_split_by_what_a_line_can_carry() -> None:
    env = {"A": "x=y #z", "B": "1\n2", "C": "cr\r", "D": "x" * 40_000, "NVIDIA_VISIBLE_DEVICES": "all\n"}
    plain, secret = split_environment(env)
    assert plain == {"A": "x=y #z", "NVIDIA_VISIBLE_DEVICES": "void"}
    assert set(secret) == {"B", "C", "D"}
    assert env_file(plain) == b"A=x=y #z\nNVIDIA_VISIBLE_DEVICES=void\n"


PREFIX = "Error: runc: runc create failed: unable to start container process: "


@pytest.mark.parametrize(
    ("rc", "words", "fault", "code"),
    [
        (
            127,
            PREFIX
            + 'exec: "x": executable file not found in $PATH: OCI runtime attempted to invoke a command that was '
            "not found",
            "user",
            "command_not_found",
        ),
        (126, PREFIX + 'exec: "/tmp": permission denied: OCI permission denied', "user", "command_not_executable"),
        (125, "Error: localhost/none:1: image not known", "user", "image_not_found"),
        (126, "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=GPU-1", "node", "gpu_missing"),
        (125, "Error: writing blob: no space left on device", "node", "disk_full"),
        (
            125,
            "Error: initializing source docker://busybox: pinging registry r: dial tcp: lookup r: no such host",
            "node",
            "registry_unreachable",
        ),
        (
            125,
            'Error: short-name "foo" did not resolve to an alias and no unqualified-search registries are defined',
            "user",
            "image_not_found",
        ),
        (125, "Error: reading manifest 9 in quay.io/a/b: manifest unknown", "user", "image_not_found"),
        (
            125,
            "Error: reading manifest latest in x: unauthorized: access to the requested resource",
            "user",
            "image_denied",
        ),
        (125, "Error: something new", "node", "start_failed"),
        (127, "", "user", "command_not_found"),
        (None, "too late", "node", "runtime_timeout"),
    ],
)
def test_words_to_causes(rc: int | None, words: str, fault: str, code: str) -> None:
    found = explain(Outcome(rc, "", words), "start_failed")
    assert (found.fault, found.code) == (fault, code)


def test_special_answers() -> None:
    taken = 'Error: creating container storage: the container name "nx" is already in use by 738. You have to remove'
    assert name_taken(Outcome(125, "", taken))
    assert image_absent(Outcome(125, "", "Error: localhost/none:1: image not known"))
    assert not name_taken(Outcome(0, "", ""))


def test_inspect() -> None:
    text = (
        '[{"Id": "abc", "State": {"Status": "exited", "Pid": 0, "ExitCode": 137, "OOMKilled": true, "StartedAt": "s",'
        ' "FinishedAt": "f"}, "Config": {"StopSignal": 15}}]'
    )
    found = parse_inspect(Outcome(0, text, ""))
    assert found is not None
    assert (found.id, found.status, found.exit_code, found.oom, found.stop_signal) == ("abc", "exited", 137, True, "15")
    assert parse_inspect(Outcome(125, "[]", 'Error: no such container "x"')) is None
    for bad in (Outcome(125, "[]", "database is locked"), Outcome(0, "[]", ""), Outcome(0, "{", "")):
        with pytest.raises(ValueError):  # noqa: PT011 - json's own error counts too
            parse_inspect(bad)


@pytest.mark.parametrize(
    ("text", "number"),
    [("15", 15), ("SIGINT", 2), ("QUIT", 3), ("", 15), ("NONSENSE", 15), ("99", 15), ("SIG_DFL", 15)],
)
def test_stop_signals(text: str, number: int) -> None:
    assert signal_number(text) == number


@pytest.mark.parametrize(
    ("code", "name"), [(0, None), (1, None), (128, None), (137, "SIGKILL"), (143, "SIGTERM"), (255, None)]
)
def test_signal_names(code: int, name: str | None) -> None:
    assert signal_name(code) == name


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T00:00:01Z", 10**9),
        ("2026-11-30T22:49:17.139329411Z", 1796078957139329411),
        ("1970-01-01T02:00:00.5+02:00", 500_000_000),
        ("0001-01-01T00:00:00Z", 0),
        ("yesterday", 0),
        ("2026-13-41T00:00:00Z", 0),
    ],
)
def test_times(text: str, nanoseconds: int) -> None:
    assert rfc3339_ns(text) == nanoseconds


@given(st.text())
def test_times_never_raise(text: str) -> None:
    assert rfc3339_ns(text) >= 0


def test_the_kernels_log_tells_of_a_kill() -> None:
    log = "[1] x\n[2] oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/libpod_parent/libpod-abc,task=sh,pid=9\n"
    assert tells_of(log, "abc")
    assert not tells_of(log, "abd")
    assert not tells_of("libpod-abc started", "abc")


def test_cdi_names() -> None:
    yaml = 'cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: "0"\n  containerEdits:\n- name: GPU-1\n'
    assert _names(yaml) == ["0", "GPU-1"]
    assert _names('{"devices": [{"name": "GPU-2"}]}') == ["GPU-2"]
    assert _names("{}") == []


def test_only_a_start_does_without_go_s_collector() -> None:
    start = Podman().start(SPEC, MOUNTS, [], "epoch")
    assert start.brief
    assert runtime_environment(brief=start.brief)["GOGC"] == "off"
    for command in (Podman().pull("docker.io/library/python:3.12"), Podman().inspect("a"), Podman().remove("a")):
        assert not command.brief
    assert "GOGC" not in runtime_environment()
