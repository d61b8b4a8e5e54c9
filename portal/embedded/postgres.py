"""The embedded PostgreSQL: prepared once by the wheel's own initdb, then run with a private socket and no TCP.

The superuser exists only inside PostgreSQL's single-user mode: pg_hba.conf admits the role `berth` alone, with a
SCRAM password, so there is no moment at which anybody could log in without one.
"""

from __future__ import annotations

import secrets
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from portal.embedded import binaries, scram
from portal.embedded.errors import EmbeddedError
from portal.embedded.files import sync_folder, write_private
from portal.embedded.launch import SERVER_ENV, Launch, take_lock
from portal.embedded.layout import Layout, own
from portal.embedded.options import Options
from portal.env import Env

ROLE = "berth"
DATABASE = "berth"
STOP_SIGNAL = signal.SIGINT  # fast shutdown: open transactions are rolled back, a checkpoint is written
STOP_SECONDS = 30.0
START_SECONDS = 60.0  # crash recovery takes its time
INIT_SECONDS = 120.0
MAX_CONNECTIONS = 100
HBA = f"# Written by Berth at every start: only its role, only through the socket.\nlocal all {ROLE} scram-sha-256\n"


def password(env: Env) -> str:
    """Return the app role's password (made once)."""
    return env.secret("postgres_password", lambda: secrets.token_urlsafe(32))


def url(env: Env, layout: Layout, database: str = DATABASE) -> str:
    """Return the libpq URL of the app role; percent-encoded socket folder in the host's place."""
    return f"postgresql://{ROLE}:{password(env)}@{quote(str(layout.sockets), safe='')}/{database}"


def lock_path(layout: Layout) -> Path:
    """Return the lock file that the server carries."""
    return layout.locks / "postgres.lock"


def log_path(layout: Layout) -> Path:
    """Return the server's log of detached starts."""
    return layout.logs / "postgres.log"


def launch(env: Env, layout: Layout, options: Options) -> Launch:
    """Lock the data folder, create the database when there is none, and describe the server's start."""
    lock = take_lock(lock_path(layout), "PostgreSQL", env.data_dir)
    try:
        programs = binaries.postgres_bin(layout.user)
        if not (layout.postgres / "PG_VERSION").exists():
            _create(env, layout, options, programs)
        _check_version(layout, programs)
        _remove_stale_pids(layout)
        write_private(layout.postgres / "pg_hba.conf", HBA, layout.user)
    except BaseException:
        lock.release()
        raise
    return Launch([str(programs / "postgres"), *_arguments(layout, options)], lock, layout.user, layout.postgres)


def probe(env: Env, layout: Layout) -> None:
    """Raise unless the server answers the app role on its database; EmbeddedError when it never will."""
    try:
        with psycopg.connect(url(env, layout), connect_timeout=3) as connection:
            connection.execute("SELECT 1")
    except psycopg.OperationalError as error:
        if "password authentication failed" not in str(error):
            raise
        raise EmbeddedError(
            f"The data in {layout.postgres} was made with another password than {env.secrets_dir}/postgres_password: "
            "restore that file from a backup, or move the data away to begin anew."
        ) from None


def _arguments(layout: Layout, options: Options) -> list[str]:
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(layout.sockets),
        "unix_socket_permissions": "0700",
        "max_connections": str(MAX_CONNECTIONS),
        "password_encryption": "scram-sha-256",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "logging_collector": "off",
        "log_checkpoints": "off",
        # Statements and row values may hold secrets: the log names errors only.
        "log_min_error_statement": "panic",
        "log_error_verbosity": "terse",
        "jit": "off",  # short queries: compiling costs more than it saves
    }
    if not options.durable:
        settings |= {"fsync": "off", "full_page_writes": "off"}  # a killed process loses nothing, a power cut would
    arguments = ["-D", str(layout.postgres)]
    for name, value in settings.items():
        arguments += ["-c", f"{name}={value}"]
    return arguments


def _create(env: Env, layout: Layout, options: Options, programs: Path) -> None:
    """Make the cluster, role and database in a staging folder that gets its name only when all of it stands."""
    staging = layout.postgres.with_name("postgres.new")
    shutil.rmtree(staging, ignore_errors=True)  # left by an interrupted start
    own(staging, layout.user)
    command = [str(programs / "initdb"), "-D", str(staging), "-U", "postgres", "-E", "UTF8", "--auth=reject"]
    command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C", "--no-instructions"]
    _run(layout, command if options.durable else [*command, "--no-sync"], "")
    attributes = "LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOREPLICATION"
    attributes += " CREATEDB" if options.createdb else " NOCREATEDB"
    sql = f"CREATE ROLE {ROLE} {attributes} PASSWORD '{scram.verifier(password(env))}'\n"
    sql += f"CREATE DATABASE {DATABASE} OWNER {ROLE}\n"
    fsync = "on" if options.durable else "off"
    single = [
        str(programs / "postgres"),
        "--single",
        "-D",
        str(staging),
        "-c",
        "exit_on_error=on",
        "-c",
        f"fsync={fsync}",
    ]
    _run(layout, [*single, "-c", "log_min_error_statement=panic", "postgres"], sql)
    staging.rename(layout.postgres)
    sync_folder(layout.postgres.parent)


def _run(layout: Layout, command: list[str], text: str) -> None:
    as_user: dict[str, Any] = {} if layout.user is None else layout.user.popen_options()
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=INIT_SECONDS,
        cwd="/",
        env=SERVER_ENV,
        **as_user,
    )
    if done.returncode != 0:
        raise EmbeddedError(f"{Path(command[0]).name} failed (exit {done.returncode}): {done.stderr.strip()[-1500:]}")


def _check_version(layout: Layout, programs: Path) -> None:
    made_by = (layout.postgres / "PG_VERSION").read_text(encoding="ascii").strip()
    shown = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True, timeout=10)
    installed = shown.stdout.split()[-1].split(".")[0]
    if made_by != installed:
        raise EmbeddedError(
            f"The data in {layout.postgres} was made by PostgreSQL {made_by}, installed is {installed}: dump it with "
            "the old release and restore it with the new one (docs/operations.md, section Upgrades)."
        )


def _remove_stale_pids(layout: Layout) -> None:
    """Remove the pid files of a server that was killed: we hold its lock, but its pid may be another's by now."""
    path = layout.postgres / "postmaster.pid"
    try:
        pid = int(path.read_text(encoding="ascii").split()[0])
    except (FileNotFoundError, ValueError, IndexError):  # none, or cut short by a power loss
        pid = 0
    if pid > 0 and _serves(pid, layout.postgres):
        raise EmbeddedError(f"A PostgreSQL that Berth did not start (pid {pid}) uses {layout.postgres}: stop it first.")
    for stale in (path, layout.sockets / ".s.PGSQL.5432.lock", layout.sockets / ".s.PGSQL.5432"):
        stale.unlink(missing_ok=True)


def _serves(pid: int, data: Path) -> bool:
    """Say whether that process is a postmaster of this folder (its working directory is the folder)."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == data.resolve()
    except OSError:
        return False
