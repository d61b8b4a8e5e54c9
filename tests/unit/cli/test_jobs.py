"""The verbs of jobs: what they print, their exit codes and the JSON for programs."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tracemalloc
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from tests.unit.cli.conftest import Berth
from tests.unit.cli.portal import BrokenStream, FakePortal, problem

SUBMIT = ("job", "submit", "--name", "digits", "--image", "local/digits:1")
COMMAND = ("--", "python", "train.py", "--epochs", "4")


def sent(portal: FakePortal) -> dict[str, Any]:
    """Returns the body of the newest submit."""
    request = next(r for r in reversed(portal.requests) if (r.method, r.url.path) == ("POST", "/api/v1/jobs"))
    return dict(json.loads(request.content))


def test_submit_by_flags(signed_in: Berth, portal: FakePortal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_HERE", "yes")
    outcome = signed_in(
        *SUBMIT, "--gpus", "2", "--gpu-model", "H100", "--gpu-memory", "40Gi", "--cpus", "2.5", "--memory", "4Gi",
        "--shm", "512Mi", "--time", "1h30m", "--retries", "2", "--env", "A=1=2", "-e", "FROM_HERE", *COMMAND,
    )  # fmt: skip
    job = next(iter(portal.jobs.values()))
    assert outcome.code == 0
    assert outcome.text == f"Submitted job digits ({job['id']}).\nFollow it: berth job logs -f {job['id']}\n"
    assert sent(portal) == {
        "name": "digits", "image": "local/digits:1", "command": ["python", "train.py", "--epochs", "4"], "gpus": 2,
        "gpu_model": "H100", "gpu_memory_mib": 40960, "cpus": 2.5, "memory_mib": 4096, "shm_mib": 512,
        "time_limit_s": 5400, "max_retries": 2, "env": {"A": "1=2", "FROM_HERE": "yes"},
    }  # fmt: skip


def test_submit_prints_for_programs(signed_in: Berth, portal: FakePortal) -> None:
    assert signed_in(*SUBMIT, "--json", *COMMAND).json()["name"] == "digits"
    assert signed_in(*SUBMIT, "-o", "name", *COMMAND).text.strip() in portal.jobs
    assert "image: local/digits:1" in signed_in(*SUBMIT, "-o", "yaml", *COMMAND).text


def test_flags_win_over_the_file(signed_in: Berth, portal: FakePortal, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    (tmp_path / "secrets.env").write_text("# secrets\nexport TOKEN='s e'\n\nB=2\n")
    (tmp_path / "job.yaml").write_text(
        "name: from-file\nimage: local/x:1\ncommand: [python, train.py, 7]\ngpus: 1\nmemory_mib: 2Gi\n"
        "time_limit_s: 2h\nenv: {A: true, B: file, C: }\nfiles:\n  - {local: train.py, path: src/train.py}\n"
    )
    outcome = signed_in(
        "job", "submit", "-f", str(tmp_path / "job.yaml"), "--gpus", "4", "--env-file", str(tmp_path / "secrets.env")
    )
    assert outcome.code == 0, outcome.err
    digest = hashlib.sha256(b"print(1)").hexdigest()
    assert sent(portal) == {
        "name": "from-file", "image": "local/x:1", "command": ["python", "train.py", "7"], "gpus": 4,
        "memory_mib": 2048, "time_limit_s": 7200, "env": {"A": "true", "B": "2", "C": "", "TOKEN": "s e"},
        "files": [{"path": "src/train.py", "sha256": digest}],
    }  # fmt: skip
    assert portal.files == {digest: 8}


def test_unknown_fields_are_refused_by_name_with_a_suggestion(signed_in: Berth, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: a\nmemory: 4Gi\nimagee: x\nzzz: 1\n")
    outcome = signed_in("job", "submit", "-f", str(file))
    assert outcome.code == 2
    assert outcome.err.splitlines() == [
        f"berth: {file} has fields that Berth does not know.",
        "  memory: unknown field. Did you mean 'memory_mib'?",
        "  imagee: unknown field. Did you mean 'image'?",
        "  zzz: unknown field.",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [("- a", "must hold fields"), ("a: [", "not valid YAML"), ("command: python train.py", "list of words"),
     ("memory_mib: lots", "memory_mib: 'lots' is not an amount"), ("time_limit_s: soon", "is not a duration"),
     ("env: [A]", "NAME: value"), ("files: [a]", "files: write a list"),
     ("files: [{local: a, to: b}]", "to: unknown field")],
)  # fmt: skip
def test_wrong_files_are_told(signed_in: Berth, tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    outcome = signed_in("job", "submit", "-f", str(file))
    assert outcome.code == 2
    assert told in outcome.err


def test_what_is_missing_is_told_before_anything_is_sent(signed_in: Berth, portal: FakePortal) -> None:
    outcome = signed_in("job", "submit", "--gpus", "1")
    assert outcome.code == 2
    assert "name: give --name NAME" in outcome.err
    assert "image: give --image IMAGE" in outcome.err
    assert portal.requests == []


def test_wrong_amounts_are_told_together(signed_in: Berth) -> None:
    outcome = signed_in(*SUBMIT, "--memory", "4Q", "--time", "2x", *COMMAND)
    assert outcome.code == 2
    assert "--memory: '4Q'" in outcome.err
    assert "--time: '2x'" in outcome.err


def test_unreadable_inputs_are_told(signed_in: Berth, tmp_path: Path) -> None:
    assert "can't be read" in signed_in("job", "submit", "-f", str(tmp_path / "none.yaml")).err
    good = tmp_path / "good"
    good.write_text("x")
    outcome = signed_in(*SUBMIT, "--file", f"{good}:../out", *COMMAND)
    assert f"{good}: '../out' is no place below /berth/in" in outcome.err
    outcome = signed_in(
        *SUBMIT, "--file", str(good), "--file", str(tmp_path / "none"), "--file", str(tmp_path), *COMMAND
    )
    assert outcome.code == 2
    assert "No such file" in outcome.err
    assert "is not a file" in outcome.err
    assert "--env NOT_HERE" in signed_in(*SUBMIT, "--env", "NOT_HERE", *COMMAND).err


def test_a_lost_connection_never_doubles_a_job(signed_in: Berth, portal: FakePortal) -> None:
    trouble = iter([httpx.ReadError("reset"), httpx.ConnectError("refused"), 503, "in flight", None])

    def lose_the_answer(request: httpx.Request) -> httpx.Response | None:
        what = next(trouble, None)
        if isinstance(what, Exception):
            portal._submit(request)  # taken in, but the answer is lost
            raise what
        if what == "in flight":
            return problem(409, "idempotency_in_flight", "Still running.")
        return httpx.Response(503) if what else None

    portal.before = lose_the_answer
    outcome = signed_in(*SUBMIT, *COMMAND)
    assert outcome.code == 0
    assert len(portal.jobs) == 1
    assert len({request.headers["Idempotency-Key"] for request in portal.requests}) == 1
    assert len({request.content for request in portal.requests}) == 1
    assert len(portal.requests) == 5


def test_the_same_key_by_hand_makes_no_second_job(signed_in: Berth, portal: FakePortal) -> None:
    for _ in range(2):
        assert signed_in(*SUBMIT, "--idempotency-key", "k1", *COMMAND).code == 0
    assert len(portal.jobs) == 1


def test_a_large_file_is_sent_in_constant_memory(signed_in: Berth, tmp_path: Path, portal: FakePortal) -> None:
    size = 48 << 20
    with (tmp_path / "big.bin").open("wb") as file:
        file.truncate(size)
    digest = hashlib.sha256(bytes(size)).hexdigest()
    received = 0

    class Sink(httpx.BaseTransport):
        """Counts an upload without keeping it."""

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if not request.url.path.endswith("/files"):
                return portal.handle(request)
            assert request.headers["Content-Length"] == str(size)
            nonlocal received
            received = sum(len(piece) for piece in cast("httpx.SyncByteStream", request.stream))
            return httpx.Response(201, json={"sha256": digest, "size": size})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cli.shell.make_transport", Sink)
        tracemalloc.start()
        outcome = signed_in(*SUBMIT, "--file", f"{tmp_path / 'big.bin'}:data/big.bin", *COMMAND)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert outcome.code == 0, outcome.err
    assert received == size
    assert peak < 16 << 20
    assert sent(portal)["files"] == [{"path": "data/big.bin", "sha256": digest}]


def test_a_damaged_upload_is_refused(signed_in: Berth, tmp_path: Path, portal: FakePortal) -> None:
    (tmp_path / "a").write_text("a")
    portal.before = lambda request: (
        httpx.Response(201, json={"sha256": "0" * 64, "size": 1}) if request.url.path.endswith("/files") else None
    )
    outcome = signed_in(*SUBMIT, "--file", str(tmp_path / "a"), *COMMAND)
    assert outcome.code == 1
    assert "arrived with SHA-256 0000" in outcome.err
    assert portal.jobs == {}


def test_list(signed_in: Berth, portal: FakePortal) -> None:
    assert "No jobs yet" in signed_in("job", "ls").err
    first = portal.add_job("first", state="ended", result="failed")
    portal.run(portal.add_job("second"))
    lines = signed_in("job", "ls").text.splitlines()
    assert lines[0].split() == ["NAME", "STATE", "GPUS", "NODE", "SUBMITTED", "ID"]
    assert lines[1].split()[:4] == ["second", "running", "1", "gpu-01"]
    assert lines[2].endswith(first["id"])
    assert "\x1b" not in "".join(lines)
    assert [job["name"] for job in signed_in("job", "ls", "--json").json()] == ["second", "first"]
    assert signed_in("job", "ls", "--state", "failed", "-o", "name").text == f"{first['id']}\n"
    assert signed_in("job", "ls", "--search", "nope").err == "No job fits.\n"


def test_list_pages(signed_in: Berth, portal: FakePortal) -> None:
    for number in range(450):
        portal.add_job(f"job-{number}")
    assert len(signed_in("job", "ls", "--all", "--json").json()) == 450
    outcome = signed_in("job", "ls", "--limit", "3", "-o", "name")
    assert len(outcome.text.splitlines()) == 3
    assert "newest 3" in outcome.err


def test_list_refuses_a_state_that_does_not_exist(signed_in: Berth) -> None:
    outcome = signed_in("job", "ls", "--state", "runing")
    assert (outcome.code, outcome.err) == (2, "berth: There is no state 'runing'.\n  Did you mean 'running'?\n")


def test_show_says_why_it_waits_and_how_it_ended(signed_in: Berth, portal: FakePortal) -> None:
    waits = {"reason": "no_nodes", "text": "Waiting: no node is in service.", "next_step": "Ask.", "numbers": {}}
    job = portal.add_job(waits=waits)
    shown = " ".join(signed_in("job", "show", "digits").text.split())
    assert "Why Waiting: no node is in service. Next step Ask." in shown
    portal.run(job, b"x" * 2048)
    portal.end(job, "failed", code=3)
    shown = " ".join(signed_in("job", "show", job["id"]).text.split())
    assert "End The command ended with exit code 3." in shown
    assert signed_in("job", "show", "digits", "--json").json()["end"]["exit_code"] == 3


def test_show_of_nothing(signed_in: Berth) -> None:
    assert signed_in("job", "show", "nope").code == 4
    outcome = signed_in("job", "show", "0198c0de-0000-7000-8000-000000000000")
    assert (outcome.code, outcome.err) == (4, "berth: There is no such job.\n")


def test_cancel(signed_in: Berth, portal: FakePortal) -> None:
    job = portal.add_job()
    assert signed_in("job", "cancel", "digits").text.startswith("Job digits is stopping. Wait for it: berth job wait")
    assert signed_in("job", "cancel", job["id"], "--json").json()["state"] == "stopping"
    portal.on_get_job = lambda one: portal.end(one, "cancelled") if one["state"] == "stopping" else None
    assert signed_in("job", "cancel", "digits", "--wait").text == "Job digits cancelled.\n"
    outcome = signed_in("job", "cancel", "digits")
    assert (outcome.code, outcome.err) == (1, "berth: The job has ended (cancelled).\n")


def test_cancel_never_guesses_between_two(signed_in: Berth, portal: FakePortal) -> None:
    jobs = [portal.add_job(), portal.add_job()]
    outcome = signed_in("job", "cancel", "digits")
    assert outcome.code == 2
    assert all(job["id"] in outcome.err for job in jobs)
    assert {job["state"] for job in jobs} == {"pending"}


def test_requeue_and_clone(signed_in: Berth, portal: FakePortal) -> None:
    portal.add_job(state="ended", result="failed")
    assert "in the queue again" in signed_in("job", "requeue", "digits").text
    outcome = signed_in("job", "clone", "digits", "--memory", "8Gi", "--json")
    assert outcome.json()["spec"]["memory_mib"] == 8192
    assert json.loads(portal.requests[-1].content) == {"memory_mib": 8192}


@pytest.mark.parametrize(("result", "code"), [("succeeded", 0), ("failed", 1), ("cancelled", 1), ("lost", 1)])
def test_wait_maps_the_result(signed_in: Berth, portal: FakePortal, result: str, code: int) -> None:
    job = portal.add_job(waits={"reason": "x", "text": "Waiting.", "next_step": "Wait.", "numbers": {}})
    looks = iter([None, lambda: portal.run(job), None, lambda: portal.end(job, result)])
    portal.on_get_job = lambda one: (next(looks, None) or (lambda: None))()
    outcome = signed_in("job", "wait", job["id"])
    assert outcome.code == code
    assert f"Job digits {result} after " in outcome.text
    assert outcome.err.splitlines()[0] == "Job digits: pending: Waiting. Wait."
    assert outcome.err.splitlines()[1] == "Job digits: running: On gpu-01."


def test_wait_gives_up_in_time(signed_in: Berth, portal: FakePortal) -> None:
    portal.add_job()
    outcome = signed_in("job", "wait", "digits", "--timeout", "0s")
    assert outcome.code == 1
    assert "still pending after 0 s; it goes on" in outcome.err


def test_submit_and_wait_as_json(signed_in: Berth, portal: FakePortal) -> None:
    portal.on_get_job = portal.end
    outcome = signed_in(*SUBMIT, "--wait", "--json", *COMMAND)
    assert (outcome.code, outcome.json()["result"]) == (0, "succeeded")


def test_submit_and_follow_prints_only_the_log_to_stdout(signed_in: Berth, portal: FakePortal) -> None:
    log = b"epoch 1\r\x00\xff\x1b[31mloss\n"

    def go_on(job: dict[str, Any]) -> None:
        if job["state"] == "running":
            portal.end(job, "failed", code=1)
        elif job["state"] == "pending":
            portal.run(job, log)

    portal.on_get_job = go_on
    outcome = signed_in(*SUBMIT, "--follow", *COMMAND)
    assert (outcome.code, outcome.out) == (1, log)
    assert outcome.err.startswith("Submitted job digits")
    assert "The command ended with exit code 1." in outcome.err
    assert signed_in(*SUBMIT, "--follow", "--json", *COMMAND).code == 2


def test_events(signed_in: Berth, portal: FakePortal) -> None:
    job = portal.add_job()
    portal.events[job["id"]] = [
        {"seq": n, "name": f"job.e{n}", "data": {"by": "Ada"}, "at": "2026-11-30T12:00:00Z"} for n in range(1, 6)
    ]
    assert signed_in("job", "events", "digits", "-o", "name").text.split() == [f"job.e{n}" for n in range(1, 6)]
    assert [e["seq"] for e in signed_in("job", "events", "digits", "--after", "3", "--json").json()] == [4, 5]


def tar_of(**files: bytes) -> bytes:
    """Returns a tar of these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, body in files.items():
            member = tarfile.TarInfo(name.replace("__", "/"))
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    return buffer.getvalue()


def ended_with(portal: FakePortal, outputs: bytes) -> dict[str, Any]:
    """Returns an ended job with these outputs."""
    job = portal.add_job()
    portal.run(job)
    portal.end(job)
    job["attempts"][0].update(outputs_bytes=len(outputs), outputs_sha256=hashlib.sha256(outputs).hexdigest())
    portal.outputs[job["id"]] = outputs
    return job


def test_outputs_are_resumed_checked_and_unpacked(signed_in: Berth, portal: FakePortal, tmp_path: Path) -> None:
    ended_with(portal, tar_of(model=b"weights" * 100, logs__a=b"1"))

    def break_off(answer: httpx.Response) -> httpx.Response:
        portal.log_answer = lambda whole: whole
        return httpx.Response(answer.status_code, stream=BrokenStream(answer.read()[:700]))

    portal.log_answer = break_off
    outcome = signed_in("job", "outputs", "digits", "-o", str(tmp_path / "out"))
    assert outcome.code == 0, outcome.err
    assert outcome.text == f"2 files in {tmp_path / 'out'}: model, logs/a\n"
    assert (tmp_path / "out/model").read_bytes() == b"weights" * 100
    assert portal.requests[-1].headers["Range"] == "bytes=700-"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["logs", "model"]


def test_outputs_that_would_leave_the_folder_are_left_out(signed_in: Berth, portal: FakePortal, tmp_path: Path) -> None:
    buffer = io.BytesIO(tar_of(**{"..__evil": b"x", "model": b"weights"}))
    with tarfile.open(fileobj=buffer, mode="a:") as archive:
        for name, kind, target in (("abs", tarfile.SYMTYPE, "/etc/passwd"), ("up", tarfile.SYMTYPE, "../../x"),
                                   ("same", tarfile.LNKTYPE, "abs"), ("pipe", tarfile.FIFOTYPE, ""),
                                   ("fine", tarfile.SYMTYPE, "model")):  # fmt: skip
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            archive.addfile(member)
    ended_with(portal, buffer.getvalue())
    outcome = signed_in("job", "outputs", "digits", "-o", str(tmp_path / "out"))
    assert outcome.code == 0, outcome.err
    assert outcome.text == f"2 files in {tmp_path / 'out'}: model, fine\n"
    assert [name for name in ("evil", "abs", "up", "same", "pipe") if f"{name}'" in outcome.err] == [
        "evil", "abs", "up", "same", "pipe",
    ]  # fmt: skip
    assert outcome.err.count("Left out:") == 5
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["fine", "model"]
    assert not (tmp_path / "evil").exists()


def test_damaged_or_missing_outputs_are_told(signed_in: Berth, portal: FakePortal, tmp_path: Path) -> None:
    job = ended_with(portal, tar_of(model=b"w"))
    job["attempts"][0]["outputs_sha256"] = "0" * 64
    assert "was kept" in signed_in("job", "outputs", "digits", "-o", str(tmp_path)).err
    job["attempts"][0]["outputs_sha256"] = ""
    assert "left nothing in /berth/out" in signed_in("job", "outputs", "digits").err


def test_quota(signed_in: Berth, portal: FakePortal) -> None:
    portal.quota.append({"resource": "jobs", "used": 3, "ceiling": None})
    rows = [line.split() for line in signed_in("quota").text.splitlines()]
    assert rows == [["RESOURCE", "USED", "CEILING", "LEFT"], ["gpus", "2", "8", "6"], ["jobs", "3", "no", "limit"]]
    assert signed_in("quota", "--json").json()[0] == {"resource": "gpus", "used": 2, "ceiling": 8}
