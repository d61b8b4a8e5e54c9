"""`berth` as a process against the real portal: what a person does from sign-in to the end of a job."""

from __future__ import annotations

import hashlib
import json
import uuid
from pathlib import Path

from tests.integration.cli.conftest import Cli, Web, eventually
from tests.spine_world import make_node, put_log
from tests.world import PASSWORD, World, job_exits, job_runs

SUBMIT = ("job", "submit", "--name", "digits", "--image", "localhost/demo:1")
COMMAND = ("--", "python", "train.py")


def sign_in(cli: Cli, web: Web, email: str) -> None:
    """Signs in."""
    assert "Signed in" in cli.run("login", "--url", web.url, "--email", email, stdin=PASSWORD + "\n")


def test_a_job_from_sign_in_to_its_end(cli: Cli, web: Web, world: World, tmp_path: Path) -> None:
    """Upload, submit, list, show, follow as bytes come, outputs, events."""
    node = make_node()
    sign_in(cli, web, "bob@acme.test")
    assert "acme (member, in use)" in cli.run("whoami")
    (tmp_path / "train.py").write_text("print('epoch 1')\n")
    follower = cli.start(
        *SUBMIT, "--file", f"{tmp_path / 'train.py'}:train.py", "--env", "SEED=7", "--follow", *COMMAND
    )
    follower.says("Submitted job digits")
    job_id = cli.run("job", "ls", "-o", "name").strip()
    shown = json.loads(cli.run("job", "show", "digits", "--json"))
    assert shown["spec"]["files"][0]["sha256"] == hashlib.sha256(b"print('epoch 1')\n").hexdigest()
    assert shown["spec"]["env_names"] == ["SEED"]

    attempt = job_runs(node, uuid.UUID(job_id))
    log = b"epoch 1\r\x00\xff\x1b[31m"
    put_log(node, attempt, log)
    follower.prints(log)
    log += b"done\n"
    job_exits(node, attempt, log)
    follower.prints(log)
    assert follower.ends() == 0
    assert "Job digits succeeded" in follower.err
    assert cli.run("job", "logs", "digits", "--tail", "1").endswith("done\n")
    assert "job.submitted" in cli.run("job", "events", "digits")
    assert "digits  succeeded" in cli.run("job", "ls")
    assert "no kept outputs" in cli.run("job", "outputs", "digits", code=1)
    assert "jobs" in cli.run("quota")


def test_following_through_a_restart_of_the_portal(cli: Cli, web: Web, world: World) -> None:
    node = make_node()
    sign_in(cli, web, "bob@acme.test")
    job_id = cli.run(*SUBMIT, "-o", "name", *COMMAND).strip()
    attempt = job_runs(node, uuid.UUID(job_id))
    put_log(node, attempt, b"one\n")
    follower = cli.start("job", "logs", "-f", job_id)
    follower.prints(b"one\n")
    web.kill()
    follower.says("Trying again")
    put_log(node, attempt, b"one\ntwo\n")
    web.start()
    follower.prints(b"one\ntwo\n")
    job_exits(node, attempt, b"one\ntwo\nthree", exit_code=3)
    assert follower.ends() == 1
    assert follower.out == b"one\ntwo\nthree"
    assert "exit code 3" in follower.err


def test_ctrl_c_leaves_the_job_and_cancel_ends_it(cli: Cli, web: Web, world: World) -> None:
    sign_in(cli, web, "bob@acme.test")
    follower = cli.start(*SUBMIT, "--follow", *COMMAND)
    follower.says("digits: pending")
    follower.interrupt()
    assert follower.ends() == 130
    assert "Cancel it:        berth job cancel" in follower.err
    waiter = cli.start("job", "wait", "digits")
    waiter.says("pending")
    assert cli.run("job", "cancel", "digits") == "Job digits cancelled.\n"
    assert waiter.ends() == 1
    assert "has ended (cancelled)" in cli.run("job", "cancel", "digits", code=1)
    assert "in the queue again" in cli.run("job", "requeue", "digits")
    assert json.loads(cli.run("job", "clone", "digits", "--gpus", "2", "--json"))["spec"]["gpus"] == 2


def test_refusals_in_words(cli: Cli, web: Web, world: World) -> None:
    assert "Check the email address" in cli.run(
        "login", "--url", web.url, "--email", "bob@acme.test", stdin="no", code=3
    )
    assert "not signed in" in cli.run("job", "ls", code=3)
    sign_in(cli, web, "charlie@rival.test")
    told = cli.run(*SUBMIT, "--gpus", "65", "--memory", "1Mi", *COMMAND, code=2)
    assert "gpus:" in told
    assert "memory_mib:" in told
    assert "operators only" in cli.run("node", "ls", code=4)
    assert "no job 'digits'" in cli.run("job", "show", "digits", code=4)
    assert "Signed out" in cli.run("logout")
    assert "not signed in" in cli.run("whoami", code=3)
    assert "berth login" in cli.run("whoami", code=3)


def test_a_token_that_has_run_out_is_renewed(cli: Cli, web: Web, world: World, tmp_path: Path) -> None:
    sign_in(cli, web, "bob@acme.test")
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    before = config["profiles"]["default"]["access"]
    config["profiles"]["default"]["access"] = "worn-out"
    path.write_text(json.dumps(config))
    cli.run("quota")
    after = json.loads(path.read_text())["profiles"]["default"]["access"]
    assert after not in (before, "worn-out")


def test_nodes_of_an_operator(cli: Cli, web: Web, world: World) -> None:
    make_node()
    sign_in(cli, web, "olga@berth.test")
    assert "8 × NVIDIA H100 80GB HBM3" in cli.run("node", "ls")
    assert "GPU 7" in cli.run("node", "show", "gpu-01")
    assert "gets no new jobs" in cli.run("node", "cordon", "gpu-01", "--reason", "cable")
    assert "cable" in cli.run("node", "ls")
    assert "takes jobs again" in cli.run("node", "uncordon", "gpu-01")
    told = cli.run("node", "add", "gpu-02", "192.0.2.7", "--timeout", "0s", code=1)
    assert "is not ready after 0 s: fetching the host key" in told
    assert "out of service" in cli.run("node", "retire", "gpu-02")
    eventually(lambda: "gpu-02" not in cli.run("node", "ls"), "a retired node is no longer listed")
