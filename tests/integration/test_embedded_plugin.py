"""What every test run gets: servers of its own names, and no trace left, also after a run that was killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
import redis

from portal import embedded
from portal.embedded.external import with_database_name
from tests import servers

SCRIPT = """
import os, sys
from pathlib import Path
import psycopg
from portal.embedded.external import with_database_name
from tests import servers
run = servers.begin(Path(sys.argv[1]), {})
url = with_database_name(run.servers.database_url, "postgres")
with psycopg.connect(url, autocommit=True) as connection:
    connection.execute(f'CREATE DATABASE "test_berth_{run.id}_gw0"')
print(run.id, flush=True)
sys.stdin.readline()
run.end()
"""


def begin(base: Path) -> tuple[subprocess.Popen[str], str]:
    """Start a run in another process; return it and the run's id."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(base)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def databases(run: servers.Run) -> set[str]:
    with psycopg.connect(with_database_name(run.servers.database_url, "postgres")) as connection:
        return {name for (name,) in connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'test%'")}


def test_runs_share_servers_and_the_last_one_stops_them(open_folder: Callable[[str], Path]) -> None:
    base = open_folder("share")
    first, first_id = begin(base)
    run = servers.begin(base, {})
    try:
        assert first_id != run.id
        assert databases(run) == {f"test_berth_{first_id}_gw0"}
        first.communicate("end\n", timeout=60)
        assert databases(run) == set()
        assert all(row.running for row in embedded.status(run.env))
    finally:
        run.end()
    assert not any(row.running for row in embedded.status(run.env))
    assert list((base / "runs").iterdir()) == []


def test_the_next_run_removes_what_a_killed_one_left(open_folder: Callable[[str], Path]) -> None:
    base = open_folder("killed")
    killed, killed_id = begin(base)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=60)
    assert (base / "runs" / killed_id).is_dir()
    run = servers.begin(base, {})
    try:
        assert databases(run) == set()
        assert not (base / "runs" / killed_id).exists()
    finally:
        run.end()
    assert not any(row.running for row in embedded.status(run.env))


def test_each_process_has_an_empty_redis_database(open_folder: Callable[[str], Path]) -> None:
    base = open_folder("redis")
    run = servers.begin(base, {})
    try:
        url = run.servers.redis_url
        first, first_lock = servers.claim_redis(base, url, external=False)
        redis.Redis.from_url(first).set("left", "over")
        second, second_lock = servers.claim_redis(base, url, external=False)
        assert first != second
        assert redis.Redis.from_url(second).dbsize() == 0
        first_lock.release()
        again, again_lock = servers.claim_redis(base, url, external=False)
        assert again == first
        assert redis.Redis.from_url(again).dbsize() == 0
        second_lock.release()
        again_lock.release()
    finally:
        run.end()


def test_this_run_does_not_see_a_developers_installation() -> None:
    names = {name for name in os.environ if name.startswith("BERTH_") and not name.startswith("BERTH_TEST_")}
    assert names == {"BERTH_DATA_DIR"}
    assert "/runs/" in os.environ["BERTH_DATA_DIR"]


@pytest.mark.django_db(transaction=True)
def test_real_processes_get_the_tests_database(service_environ: dict[str, str]) -> None:
    with psycopg.connect(service_environ["DATABASE_URL"]) as connection:
        row = connection.execute("SELECT current_database(), to_regclass('django_migrations') IS NOT NULL").fetchone()
    assert row is not None
    assert row[0].startswith("test_berth_")
    assert row[1]
