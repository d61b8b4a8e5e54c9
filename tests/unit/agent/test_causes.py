"""Both runtimes' words and answers: whose fault, and nothing unknown taken for a value."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.agent import container
from workers.agent.causes import explain, image_absent, name_taken
from workers.agent.container import ContainerCalls
from workers.agent.podman import Podman, parse_inspect
from workers.agent.process import Command, Outcome, Wake
from workers.agent.state import AttemptState

ROOT = Path(os.environ.get("BERTH_FIXTURES", Path(__file__).parents[3] / "../shared/fixtures")) / "f-containers"
DAEMON = "docker: Error response from daemon: "
OCI = DAEMON + "OCI runtime create failed: container_linux.go:380: starting container process caused: "


def shared(name: str) -> str:
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"no shared fixture {name}")
    return path.read_text(errors="replace")


@pytest.mark.parametrize(
    ("rc", "words", "fault", "code"),
    [
        (127, OCI + 'exec: "train": executable file not found in $PATH: unknown.', "user", "command_not_found"),
        (127, OCI + 'exec: "/no": stat /no: no such file or directory: unknown.', "user", "command_not_found"),
        (126, OCI + 'exec: "/tmp": permission denied: unknown.', "user", "command_not_executable"),
        (125, DAEMON + "fork/exec /usr/bin/runc: permission denied: unknown.", "node", "runtime_broken"),
        (125, OCI + "process_linux.go: nvidia-container-cli: initialization error: x", "node", "runtime_broken"),
        (1, "Cannot connect to the Docker daemon at unix:///run/d.sock. Is it running?", "node", "runtime_broken"),
        (125, DAEMON + 'could not select device driver "" with capabilities: [[gpu]].', "node", "gpu_missing"),
        (1, DAEMON + "pull access denied for a/b, repository does not exist: denied: x", "user", "image_denied"),
        (1, DAEMON + "manifest for alpine:none not found: manifest unknown", "user", "image_not_found"),
        (1, "Error: No such image: a:1", "user", "image_not_found"),
        (1, "toomanyrequests: You have reached your pull rate limit.", "node", "registry_limit"),
        (
            1,
            DAEMON + 'Get "https://r/v2/": x509: unknown authority',
            "node",
            "registry_certificate",
        ),
        (1, "no matching manifest for linux/amd64 in the manifest list entries", "user", "image_architecture"),
        (125, "invalid reference format: repository name must be lowercase", "user", "image_invalid"),
        (1, DAEMON + 'Get "https://r/v2/": context deadline exceeded', "node", "registry_unreachable"),
        (1, DAEMON + 'Get "https://r/v2/": dial tcp 10.0.0.1:443: no route to host', "node", "registry_unreachable"),
    ],
)
def test_words_to_causes(rc: int, words: str, fault: str, code: str) -> None:
    found = explain(Outcome(rc, "", words), "start_failed")
    assert (found.fault, found.code) == (fault, code)
    assert words.splitlines()[-1][-100:] in found.message


@pytest.mark.parametrize("program", ["no space left on device", 'a": fork/exec /x', "unresolvable CDI devices"])
def test_a_program_s_name_never_makes_its_fault_the_node_s(program: str) -> None:
    once = json.dumps(program)
    twice = json.dumps(once)[1:-1]
    for words in (
        f"Error: runc: exec: {once}: executable file not found in $PATH: unknown",
        f'{DAEMON}caused "exec: {twice}: executable file not found in $PATH": unknown.',
        f"Error: runc: exec: {once}: stat {program}: no such file or directory: unknown",
        f"Error: crun: executable file `{program}` not found: No such file or directory: OCI runtime",
    ):
        found = explain(Outcome(127, "", words), "start_failed")
        assert (found.fault, found.code) == ("user", "command_not_found"), words


def test_special_answers_of_docker() -> None:
    taken = DAEMON + 'Conflict. The container name "/berth-a" is already in use by container "b".'
    assert name_taken(Outcome(125, "", taken))
    assert image_absent(Outcome(125, "", DAEMON + "No such image: a:1."))


def inspected(state: Any, config: Any = None) -> Outcome:
    return Outcome(0, json.dumps([{"Id": "abc", "State": state, "Config": config}]), "")


def test_an_unknown_exit_code_is_not_success() -> None:
    for code in (None, True, "0", -1, 256, 1.0):
        with pytest.raises(ValueError, match="no exit code"):
            parse_inspect(inspected({"Status": "exited", "ExitCode": code}))
    running = parse_inspect(inspected({"Status": "running", "ExitCode": None, "Pid": -4}))
    assert running is not None
    assert (running.pid, running.exit_code) == (0, 0)


@pytest.mark.parametrize("text", ["{}", "[[]]", '[{"State": []}]', '[{"State": null}]', "[" * 100_000])
def test_answers_nobody_can_read(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own error counts too
        parse_inspect(Outcome(0, text, ""))


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
STATES = st.dictionaries(st.sampled_from(["Status", "Pid", "ExitCode", "OOMKilled", "StartedAt"]), ANY)


@given(STATES | ANY, ANY)
def test_any_answer_is_sane_or_refused(state: Any, config: Any) -> None:
    try:
        found = parse_inspect(inspected(state, config))
    except ValueError:
        return
    assert found is not None
    assert 0 <= found.exit_code <= 255
    assert 0 <= found.pid <= 1 << 22


@given(st.text(), st.sampled_from([None, 1, 125, 126, 127]))
def test_any_words_are_explained(words: str, rc: int | None) -> None:
    assert explain(Outcome(rc, "", words), "start_failed").fault in ("user", "node")


def test_shared_oci_errors_are_told_apart() -> None:
    program, host = shared("oci_errors.txt").strip().splitlines()
    found = [explain(Outcome(rc, "", words), "start_failed") for rc, words in ((127, program), (125, host))]
    assert [(each.fault, each.code) for each in found] == [("user", "command_not_found"), ("node", "runtime_broken")]


def test_shared_oom_is_known_whatever_the_exit_code() -> None:
    text = shared("ps_created_and_exited1_oom.txt")
    flag = json.loads("{" + text.strip().splitlines()[-1].strip().rstrip(",") + "}")
    found = parse_inspect(inspected({"Status": "exited", "ExitCode": 1, **flag}))
    assert found is not None
    assert (found.oom, found.exit_code) == (True, 1)


@pytest.mark.parametrize("name", ["pai__docker_inspect_sample.json", "pai__docker_inspect_kube_launcher_task.json"])
def test_shared_inspect_answers_of_docker(name: str) -> None:
    found = parse_inspect(Outcome(0, shared(name), ""))
    assert found is not None
    assert (found.status, found.oom, len(found.id)) == ("running", False, 64)
    assert found.pid in (95539, 23774)


def test_shared_inspect_answer_of_the_api() -> None:
    found = parse_inspect(Outcome(0, f"[{shared('telegraf__testdata__inspect.json')}]", ""))
    assert found is not None
    assert (found.status, found.pid, found.exit_code, found.stop_signal) == ("running", 1234, 0, "")


class Ghost(ContainerCalls):
    """A runtime that says "running" for ever of a container whose process is gone (docker/cli#140)."""

    __slots__ = ()

    def _run(self, command: Command, name: str) -> Outcome:
        return inspected({"Status": "running", "Pid": 9})


def test_a_ghost_is_lost_within_a_bound(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(container, "_SETTLE_S", 0.0)
    state: AttemptState = object()  # type: ignore[assignment]
    assert Ghost(Podman(), "a", str(tmp_path), state, Wake()).settled() is None
