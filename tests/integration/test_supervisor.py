"""The supervisor with real processes: order, restarts with back-off, health, orderly stop, no orphans."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from portal import embedded
from portal.embedded import locks
from portal.embedded.external import with_database_name
from portal.env import Env, load
from portal.supervisor import Backoff, ProcessSpec, Report, State, Supervisor, SupervisorError
from portal.supervisor import ctl as berth_ctl
from portal.supervisor.__main__ import main as run_supervisor
from portal.supervisor.orphans import children_lock
from portal.supervisor.table import check_web, mail_process, postgres_process, prepare, processes, redis_process

QUICK = Backoff(first=0.05, most=0.2, healthy=60.0)
BOUND = 20.0


@pytest.fixture
def env(tmp_path: Path) -> Env:
    return load({"BERTH_DATA_DIR": str(tmp_path / "data")})


@pytest.fixture
def server_env(open_folder: Callable[[str], Path]) -> Env:
    """A data folder that the servers' user may enter."""
    return load({"BERTH_DATA_DIR": str(open_folder("sup") / "data")})


def python(name: str, code: str, **options: object) -> ProcessSpec:
    """Return a process that runs a few lines of Python."""
    return ProcessSpec(name, (sys.executable, "-u", "-c", code), **options)  # type: ignore[arg-type]


def sleeper(name: str, **options: object) -> ProcessSpec:
    return python(name, "import time; print('up', flush=True); time.sleep(600)", ready_line="up", **options)


def eventually(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition within a bound."""
    deadline = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < deadline, f"not within {BOUND:.0f} s: {what}"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def log_of(env: Env, name: str) -> str:
    return (env.logs_dir / f"{name}.log").read_text()


class Seen:
    """Collects state changes."""

    def __init__(self) -> None:
        self.rows: list[Report] = []

    def __call__(self, report: Report) -> None:
        self.rows.append(report)

    def states(self, name: str) -> list[str]:
        return [row.state for row in self.rows if row.name == name]

    def order(self, state: State) -> list[str]:
        return [row.name for row in self.rows if row.state == state]


def test_starts_in_order_and_stops_in_reverse(env: Env) -> None:
    seen = Seen()
    once = python("once", "print('migrated')", oneshot=True)
    supervisor = Supervisor(env, [sleeper("a"), once, sleeper("b"), sleeper("c")], changed=seen)
    with supervisor:
        reports = {row.name: row for row in supervisor.reports()}
        assert {name: row.state for name, row in reports.items()} == {
            "a": "ready",
            "once": "done",
            "b": "ready",
            "c": "ready",
        }
        pids = [reports[name].pid for name in "abc"]
    assert seen.order(State.STARTING) == ["a", "once", "b", "c"]
    assert seen.order(State.STOPPED) == ["c", "b", "a"]
    for earlier, later in (("a", "once"), ("once", "b"), ("b", "c")):
        settled = next(i for i, row in enumerate(seen.rows) if row.name == earlier and row.state in ("ready", "done"))
        started = next(i for i, row in enumerate(seen.rows) if row.name == later and row.state == "starting")
        assert settled < started
    assert not [pid for pid in pids if pid and alive(pid)]
    assert log_of(env, "once") == "migrated\n"


def test_alongside_does_not_wait(env: Env) -> None:
    seen = Seen()
    slow = python("slow", "import time; time.sleep(0.5); print('up'); time.sleep(600)", ready_line="up")
    once = python("once", "import time; time.sleep(0.3)", oneshot=True)
    table = [slow, sleeper("beside", alongside=True), sleeper("after"), once, sleeper("last", alongside=True)]
    with Supervisor(env, table, changed=seen):
        pass
    starts, readies = seen.order(State.STARTING), seen.order(State.READY)
    assert sorted(starts[:2]) == ["beside", "slow"]  # at the same time
    assert starts[2:] == ["after", "once", "last"]
    assert readies[-2:] == ["after", "last"]
    states = [(row.name, row.state) for row in seen.rows]
    assert states.index(("once", "done")) < states.index(("last", "starting"))
    assert states.index(("beside", "starting")) < states.index(("slow", "ready"))


def test_a_killed_process_comes_back_by_itself(env: Env) -> None:
    with Supervisor(env, [sleeper("a"), sleeper("b")], backoff=QUICK) as supervisor:
        before, other = supervisor.report("a"), supervisor.report("b")
        assert supervisor.kill("a")
        assert supervisor.wait_ready("a", BOUND, restarts=1)
        after = supervisor.report("a")
        assert after.pid != before.pid
        assert after.last_exit == "signal SIGKILL"
        assert supervisor.report("b").pid == other.pid


def test_pauses_grow_while_it_keeps_ending(env: Env) -> None:
    seen = Seen()
    crash = python("crash", "print('up', flush=True); raise SystemExit(3)", ready_line="up")
    with Supervisor(env, [crash], backoff=QUICK, changed=seen) as supervisor:
        assert supervisor.wait_for("crash", lambda row: row.restarts >= 4, BOUND)
    pauses = [row.detail for row in seen.rows if row.state == State.BACKOFF]
    assert pauses[:4] == [f"exit 3; again in {pause} s" for pause in ("0.1", "0.1", "0.2", "0.2")]


def test_health_forgives_earlier_failures(env: Env) -> None:
    seen = Seen()
    forgiving = Backoff(first=0.05, most=10.0, healthy=0.0)
    with Supervisor(env, [sleeper("a")], backoff=forgiving, changed=seen) as supervisor:
        for restart in range(1, 6):
            supervisor.kill("a")
            assert supervisor.wait_ready("a", BOUND, restarts=restart)
    assert {row.detail for row in seen.rows if row.state == State.BACKOFF} == {"signal SIGKILL; again in 0.1 s"}


def test_a_process_that_cannot_start_stops_the_start_and_shows_its_log(env: Env) -> None:
    seen = Seen()
    bad = python("bad", "print('no such table'); raise SystemExit(2)", oneshot=True)
    supervisor = Supervisor(env, [sleeper("a"), bad, sleeper("never")], changed=seen)
    with pytest.raises(SupervisorError, match=r"bad failed \(exit 2\)(.|\n)*no such table"):
        supervisor.start()
    assert seen.states("never") == ["stopped"]
    assert seen.states("a")[-1] == "stopped"
    with Supervisor(env, [sleeper("a")]) as again:
        assert again.report("a").state == "ready"


def test_a_service_that_is_never_ready_stops_the_start(env: Env) -> None:
    mute = python("mute", "import time; print('hm', flush=True); time.sleep(600)", ready_line="up", start_seconds=0.5)
    with pytest.raises(SupervisorError, match="mute was not ready within"):
        Supervisor(env, [mute], backoff=QUICK).start()


def test_a_missing_program_is_named(env: Env) -> None:
    with pytest.raises(SupervisorError, match=r"No such file or directory: '/no/such/program'"):
        Supervisor(env, [ProcessSpec("gone", ("/no/such/program",), start_seconds=0.5)], backoff=QUICK).start()


def test_a_failing_health_check_restarts(env: Env, tmp_path: Path) -> None:
    sick = tmp_path / "sick"

    def probe() -> None:
        if sick.exists():
            raise RuntimeError("does not answer")

    seen = Seen()
    spec = sleeper("a")
    spec = ProcessSpec("a", spec.argv, probe=probe, probe_every=0.05, probe_failures=3)
    with Supervisor(env, [spec], backoff=QUICK, changed=seen) as supervisor:
        sick.touch()
        assert supervisor.wait_for("a", lambda row: row.restarts == 1, BOUND)
        sick.unlink()
        assert supervisor.wait_ready("a", BOUND, restarts=1)
    assert "health check failed 3 times: does not answer" in [row.detail for row in seen.rows]
    assert "health check failed 3 times" in log_of(env, "a")


def test_one_that_ignores_the_stop_is_killed_with_its_children(env: Env, tmp_path: Path) -> None:
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "print('up', flush=True)\n"
        "time.sleep(600)\n"
    )
    with Supervisor(env, [python("deaf", code, ready_line="up", stop_seconds=0.3)]) as supervisor:
        pids = [supervisor.report("deaf").pid or 0, int((tmp_path / "pid").read_text())]
        assert all(alive(pid) for pid in pids)
    eventually(lambda: not any(alive(pid) for pid in pids), "both are gone")


def test_a_grandchild_that_holds_the_output_does_not_hold_up_the_restart(env: Env) -> None:
    code = "import subprocess, time; subprocess.Popen(['sleep', '600']); print('up', flush=True); time.sleep(600)"
    with Supervisor(env, [python("a", code, ready_line="up")], backoff=QUICK) as supervisor:
        supervisor.kill("a")
        assert supervisor.wait_ready("a", BOUND, restarts=1)


def test_a_restart_is_orderly_and_at_once(env: Env) -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit(0)))\n"
        "print('up', flush=True)\n"
        "time.sleep(600)\n"
    )
    seen = Seen()
    with Supervisor(env, [python("a", code, ready_line="up")], changed=seen) as supervisor:
        supervisor.restart("a")
        assert supervisor.wait_ready("a", BOUND, restarts=1)
        with pytest.raises(SupervisorError, match="No process 'b'; there are: a"):
            supervisor.restart("b")
    assert State.BACKOFF not in seen.states("a")
    assert log_of(env, "a") == "up\nbye\n" * 2


def test_output_is_kept_whole(env: Env) -> None:
    code = "import sys; sys.stdout.buffer.write(b'\\x00\\xff' * 500_000); print('end', file=sys.stderr)"
    with Supervisor(env, [python("loud", code, oneshot=True)]):
        pass
    data = (env.logs_dir / "loud.log").read_bytes()
    assert data == b"\x00\xff" * 500_000 + b"end\n"


def test_children_get_the_addresses_of_their_own_installation(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = python(
        "shown", "import os; print(os.environ.get('DATABASE_URL'), os.environ['BERTH_DATA_DIR'])", oneshot=True
    )
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:p@elsewhere/x")
    with Supervisor(env, [shown]):
        pass
    with Supervisor(env.with_changes(database_url="postgresql://u:p@elsewhere/x"), [shown]):
        pass
    with Supervisor(env.with_changes(database_url="postgresql://u:p@here/x"), [shown]):
        pass
    urls = ["", "postgresql://u:p@elsewhere/x", "postgresql://u:p@here/x"]
    assert log_of(env, "shown").splitlines() == [f"{url} {env.data_dir}" for url in urls]


def test_a_second_supervisor_says_so(env: Env) -> None:
    with Supervisor(env, [sleeper("a")]) as first:
        with pytest.raises(SupervisorError, match=rf"already runs on .*pid {os.getpid()}.*berth-ctl stop"):
            Supervisor(env, [sleeper("a")]).start()
        with pytest.raises(SupervisorError, match="already runs"):
            prepare(env)
        assert first.report("a").state == "ready"


def test_children_of_a_killed_supervisor_end_and_the_next_start_waits_for_them(env: Env, tmp_path: Path) -> None:
    """SIGKILL of the supervisor: the kernel ends its children; one that resists is killed by the next start."""
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    script = (
        "import sys\n"
        "from portal.env import load\n"
        "from portal.supervisor import ProcessSpec, Supervisor\n"
        "body = \"import time; print('up', flush=True); time.sleep(600)\"\n"
        f"deaf = {deaf!r} + body\n"
        "rows = (('good', body), ('deaf', deaf))\n"
        "specs = [ProcessSpec(n, (sys.executable, '-c', c), ready_line='up') for n, c in rows]\n"
        "s = Supervisor(load(), specs)\n"
        "s.start()\n"
        "print(*[row.pid for row in s.reports()], flush=True)\n"
        "s.wait()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "BERTH_DATA_DIR": str(env.data_dir)},
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    with process.stdout:
        good, resisting = map(int, process.stdout.readline().split())
    process.kill()
    process.wait()
    eventually(lambda: not alive(good), "the kernel ended the good child")
    assert alive(resisting)
    lock = children_lock(env.data_dir / "locks", grace_seconds=0.2)
    assert not alive(resisting)
    lock.release()
    with Supervisor(env, [sleeper("a")]) as supervisor:
        assert supervisor.report("a").state == "ready"


def test_real_servers_under_the_supervisor(server_env: Env) -> None:
    table = [postgres_process(server_env, embedded.TESTS), redis_process(server_env, embedded.TESTS)]
    with Supervisor(server_env, table, backoff=QUICK) as supervisor:
        servers = embedded.resolve(server_env)
        with psycopg.connect(servers.database_url) as connection:
            connection.execute("CREATE TABLE kept (n int)")
        with pytest.raises(embedded.AlreadyRunningError):
            embedded.start(server_env, embedded.TESTS)
        for name in ("postgres", "redis"):
            assert supervisor.kill(name)
            assert supervisor.wait_ready(name, BOUND, restarts=1)
        with psycopg.connect(servers.database_url) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
        assert redis.Redis.from_url(servers.redis_url).ping()
        environ = Path(f"/proc/{supervisor.report('redis').pid}/environ").read_bytes()
        assert b"DATABASE_URL" not in environ
        pids = {row.name: row.pid for row in embedded.status(server_env)}
        assert pids == {row.name: row.pid for row in supervisor.reports()}
    assert [row.running for row in embedded.status(server_env)] == [False, False]
    assert not list((server_env.data_dir / "run").iterdir())


def test_postgres_ends_in_order_when_the_supervisor_is_killed(server_env: Env) -> None:
    command = [sys.executable, "-m", "portal.supervisor", "--only", "postgres,redis"]
    environ = {k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "REDIS_URL")}
    environ |= {"BERTH_DATA_DIR": str(server_env.data_dir), "BERTH_HTTP_PORT": str(free_port())}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ, cwd=Path(__file__).parents[2])
    assert process.stdout is not None
    with process.stdout:
        lines = iter(process.stdout.readline, "")
        assert any(line.startswith("Berth runs") for line in lines)
        process.kill()
        process.wait()
    eventually(lambda: not locks.holders(server_env.data_dir / "locks" / "children.lock"), "the servers are gone")
    (server_env.logs_dir / "postgres.log").unlink()
    embedded.start(server_env, embedded.TESTS)
    embedded.stop(server_env)
    assert "database system was shut down at" in log_of(server_env, "postgres")  # else: "was interrupted"


# --- berth-ctl, and the command as a whole ---


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def running(env: Env) -> Iterator[Supervisor]:
    with Supervisor(env, [sleeper("a"), sleeper("b")], backoff=QUICK) as supervisor:
        yield supervisor


def ctl(env: Env, *words: str) -> int:
    return berth_ctl.main(["--data", str(env.data_dir), *words])


def test_ctl_lists_restarts_and_kills(env: Env, running: Supervisor, capsys: pytest.CaptureFixture[str]) -> None:
    assert ctl(env, "ps", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["state"], row["restarts"]) for row in rows] == [("a", "ready", 0), ("b", "ready", 0)]
    assert ctl(env, "restart", "a") == 0
    assert running.wait_ready("a", BOUND, restarts=1)
    assert ctl(env, "kill", "b", "--signal", "INT") == 0
    assert running.wait_ready("b", BOUND, restarts=1)
    assert ctl(env, "ps") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split()[:2] == ["NAME", "STATE"]
    assert str(running.report("a").pid) in shown[1]


def test_ctl_shows_logs(env: Env, running: Supervisor, capsys: pytest.CaptureFixture[str]) -> None:
    assert ctl(env, "logs", "a") == 0
    assert capsys.readouterr().out == "up\n"
    assert ctl(env, "logs", "missing") == 1
    assert "there are: a, b" in capsys.readouterr().err


def test_ctl_follows_a_log_over_a_restart(env: Env, running: Supervisor) -> None:
    command = [sys.executable, "-m", "portal.supervisor.ctl", "--data", str(env.data_dir), "logs", "-f", "a"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "up\n"
            running.restart("a")
            assert process.stdout.readline() == "up\n"
        finally:
            process.terminate()
        assert process.wait(BOUND) == -signal.SIGTERM


def test_ctl_stop_makes_the_owner_stop(env: Env, running: Supervisor) -> None:
    waiter = subprocess.Popen(
        [sys.executable, "-m", "portal.supervisor.ctl", "--data", str(env.data_dir), "stop"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert running.wait(BOUND)
    running.stop()
    assert waiter.communicate(timeout=BOUND)[0] == "stopped\n"


def test_ctl_says_when_nothing_runs(env: Env, capsys: pytest.CaptureFixture[str]) -> None:
    assert ctl(env, "ps") == 1
    assert "does not run" in capsys.readouterr().err


def test_the_control_socket_is_private(env: Env, running: Supervisor) -> None:
    found = (env.data_dir / "locks" / "supervisor.sock").stat()
    assert found.st_mode & 0o777 == 0o600
    assert (env.data_dir / "locks").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_stops_in_order_on_a_signal(server_env: Env, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "portal.supervisor", "--only", "redis,mail"]
    environ = {k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "REDIS_URL")}
    environ |= {"BERTH_DATA_DIR": str(server_env.data_dir), "BERTH_HTTP_PORT": str(free_port())}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environ, cwd=Path(__file__).parents[2]
    ) as process:
        assert process.stdout is not None
        said = []
        for line in iter(process.stdout.readline, ""):
            said.append(line)
            if line.startswith("Berth runs"):
                process.send_signal(number)
        assert process.wait(BOUND) == 0
    stops = [line.split()[0] for line in said if line.rstrip().endswith(" stopped")]
    assert stops == ["mail", "redis"]


def test_a_taken_port_is_said_before_anything_starts(
    server_env: Env, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for name in ("DATABASE_URL", "REDIS_URL"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("BERTH_DATA_DIR", str(server_env.data_dir))
        monkeypatch.setenv("BERTH_HTTP_PORT", str(taken.getsockname()[1]))
        assert run_supervisor([]) == 1
    assert "BERTH_HTTP_PORT" in capsys.readouterr().err
    assert not (server_env.data_dir / "logs").exists()


def test_the_table_leaves_out_what_is_external(env: Env) -> None:
    inside, table = processes(env.with_changes(http_port=free_port()), nodes=2)
    names = [spec.name for spec in table]
    assert names == [
        "postgres",
        "redis",
        "migrate",
        "static",
        "mail",
        "web",
        "relay",
        "scheduler",
        "nodes-1",
        "nodes-2",
        "metering",
    ]
    assert inside.smtp_host == "127.0.0.1"
    url = with_database_name(os.environ["DATABASE_URL"], "postgres")
    outside = env.with_changes(http_port=free_port(), database_url=url, redis_url=os.environ["REDIS_URL"])
    assert [spec.name for spec in processes(outside)[1]][:3] == ["migrate", "static", "mail"]
    mailed = env.with_changes(http_port=free_port(), smtp_host="mail.example.org")
    assert "mail" not in [spec.name for spec in processes(mailed)[1]]


def test_the_mail_sink_keeps_mail(env: Env) -> None:
    import smtplib
    from email.message import EmailMessage

    message = EmailMessage()
    message["Subject"] = "Job 7 succeeded"
    message["From"], message["To"] = "berth@localhost", "alice@example.org"
    message.set_content("Well done. 做得好。")
    sink = env.with_changes(smtp_host="127.0.0.1", smtp_port=free_port())
    with Supervisor(sink, [mail_process(sink)]):
        with smtplib.SMTP("127.0.0.1", sink.smtp_port, timeout=10) as client:
            client.send_message(message)
        kept = list(env.mail_dir.glob("*.eml"))
        assert len(kept) == 1
        assert b"Subject: Job 7 succeeded" in kept[0].read_bytes()
        eventually(lambda: "to alice@example.org: Job 7 succeeded" in log_of(env, "mail"), "the line is in the log")


def test_the_web_probe_wants_an_answer_below_500(env: Env) -> None:
    code = (
        "import http.server, sys\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(int(open(sys.argv[2]).read())); self.end_headers()\n"
        "http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()\n"
    )
    answer = env.data_dir.parent / "answer"
    answer.write_text("200")
    web = env.with_changes(http_port=free_port())
    spec = ProcessSpec(
        "web",
        (sys.executable, "-c", code, str(web.http_port), str(answer)),
        probe=lambda: check_web(web),
        start_seconds=BOUND,
    )
    with Supervisor(web, [spec]) as supervisor:
        assert supervisor.report("web").state == "ready"
        answer.write_text("503")
        with pytest.raises(SupervisorError, match="503"):
            check_web(web)
