"""The process table: what runs in an installation, in which order, and how one sees that it works.

Order of starting; stopping goes backwards. systemd units and pods run the same commands.
"""

from __future__ import annotations

import functools
import http.client
import sys
from collections.abc import Collection, Sequence
from urllib.parse import urlsplit

from portal import embedded
from portal.embedded import Options, layout, postgres, redis_server
from portal.embedded.launch import SERVER_ENV, Launch
from portal.env import Env, port_is_free
from portal.supervisor.orphans import check_not_running
from portal.supervisor.spec import ProcessSpec, Started, SupervisorError

PROBE_SECONDS = 3
MAIL_SINK_PORT = 8025
DEFAULT_HTTP_PORT = Env.http_port
MIGRATE_SECONDS = 300.0
START_SECONDS = 90.0


def prepare(env: Env) -> Env:
    """Check what can be checked before a start; return the settings for the processes.

    Without an SMTP server of the operator's, mail goes to the sink, whose port is chosen here.
    """
    check_not_running(env.data_dir)
    embedded.check_external(env)
    env.check_port()
    if env.smtp_host:
        return env
    # Installations that start at the same moment differ in their HTTP ports: so do their first choices.
    first = MAIL_SINK_PORT + (env.http_port - DEFAULT_HTTP_PORT) % 1000
    free = (port for port in range(first, first + 200) if port_is_free("127.0.0.1", port))
    port = next(free, None)
    if port is None:
        raise SupervisorError("No free port for the mail sink: set BERTH_SMTP_HOST to a mail server.")
    return env.with_changes(smtp_host="127.0.0.1", smtp_port=port)


def processes(given: Env, *, options: Options = embedded.PRODUCTION, nodes: int = 1) -> tuple[Env, list[ProcessSpec]]:
    """Return the settings for the processes and the table; `nodes` workers hold the links to GPU nodes."""
    env = prepare(given)
    table: list[ProcessSpec] = []
    if not env.database_url:
        table.append(postgres_process(env, options))
    if not env.redis_url:
        table.append(redis_process(env, options))
    table += [migrate_process(), static_process()]
    if not given.smtp_host:
        table.append(mail_process(env))
    table += [web_process(env), ProcessSpec("relay", _python("-m", "workers.relay"), alongside=True)]
    table.append(worker("scheduler", "scheduling", threads=2))
    names = ["nodes"] if nodes == 1 else [f"nodes-{number}" for number in range(1, nodes + 1)]
    table += [worker(name, "nodes", threads=16) for name in names]
    table.append(worker("metering", "metering,notifications", threads=2))
    return env, table


def select(table: Sequence[ProcessSpec], only: Collection[str], without: Collection[str]) -> list[ProcessSpec]:
    """Return the rows asked for; SupervisorError for a name that is not in the table."""
    names = [spec.name for spec in table]
    unknown = sorted({*only, *without} - set(names))
    if unknown:
        raise SupervisorError(f"No process {', '.join(unknown)}; there are: {', '.join(names)}.")
    return [spec for spec in table if (not only or spec.name in only) and spec.name not in without]


def postgres_process(env: Env, options: Options) -> ProcessSpec:
    """Return the row of the embedded PostgreSQL."""
    return ProcessSpec(
        name="postgres",
        launch=lambda: _server(postgres.launch(env, layout.settle(env), options)),
        probe=lambda: postgres.probe(env, layout.find(env)),
        start_seconds=postgres.INIT_SECONDS + postgres.START_SECONDS,
        stop_signal=postgres.STOP_SIGNAL,
        stop_seconds=postgres.STOP_SECONDS,
        orphan_signal=postgres.STOP_SIGNAL,
    )


def redis_process(env: Env, options: Options) -> ProcessSpec:
    """Return the row of the embedded Redis-protocol server."""
    return ProcessSpec(
        name="redis",
        launch=lambda: _server(redis_server.launch(env, layout.settle(env), options)),
        probe=lambda: redis_server.probe(env, layout.find(env)),
        start_seconds=redis_server.START_SECONDS,
        stop_signal=redis_server.STOP_SIGNAL,
        stop_seconds=redis_server.STOP_SECONDS,
        orphan_signal=redis_server.STOP_SIGNAL,
    )


def migrate_process() -> ProcessSpec:
    """Return the row that brings the database to the code's version and ends."""
    argv = _python("manage.py", "migrate", "--noinput")
    return ProcessSpec("migrate", argv, oneshot=True, start_seconds=MIGRATE_SECONDS)


def static_process() -> ProcessSpec:
    """Return the row that gathers the console's static files under hashed names, beside the migration."""
    argv = _python("manage.py", "collectstatic", "--noinput", "-v", "0")
    return ProcessSpec("static", argv, oneshot=True, alongside=True, start_seconds=MIGRATE_SECONDS)


def web_process(env: Env) -> ProcessSpec:
    """Return the row of the HTTP and WebSocket server."""
    arguments = ["--host", env.http_host, "--port", str(env.http_port)]
    arguments += [
        "--lifespan",
        "off",
        "--timeout-graceful-shutdown",
        "5",
        "--no-server-header",
        "--ws-max-size",
        "4096",  # of bytes; the socket itself says no to as many characters
    ]
    argv = _python("-m", "uvicorn", "portal.asgi:application", *arguments)
    return ProcessSpec("web", argv, probe=functools.partial(check_web, env), start_seconds=START_SECONDS)


def worker(name: str, queues: str, *, threads: int) -> ProcessSpec:
    """Return the row of a Celery worker that serves these queues with that many threads."""
    arguments = ["worker", "-Q", queues, "-n", f"{name}@%h", "-P", "threads", "-c", str(threads), "-l", "INFO"]
    arguments += ["--without-gossip", "--without-mingle"]
    argv = _python("-m", "celery", "-A", "portal", *arguments)
    return ProcessSpec(name, argv, alongside=True, ready_line=r"\bready\.", start_seconds=START_SECONDS)


def mail_process(env: Env) -> ProcessSpec:
    """Return the row of the mail sink."""
    arguments = ["--port", str(env.smtp_port), "--folder", str(env.mail_dir)]
    return ProcessSpec("mail", _python("-m", "portal.mailsink", *arguments), alongside=True, ready_line="listening")


def check_web(env: Env) -> None:
    """Raise unless the web process answers /healthz."""
    connection = http.client.HTTPConnection(_reachable(env.http_host), env.http_port, timeout=PROBE_SECONDS)
    try:
        connection.request("GET", "/healthz", headers={"Host": urlsplit(env.public_url).netloc})
        status = connection.getresponse().status
    finally:
        connection.close()
    if status >= 500:
        raise SupervisorError(f"/healthz answered {status}")


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared only


def _python(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, *arguments)


def _server(launch: Launch) -> Started:
    def after(pid: int) -> None:
        if pid:
            launch.lock.note(pid)
        launch.lock.release()  # the server carries it from here on

    as_user = {} if launch.user is None else launch.user.popen_options()
    popen = {"cwd": launch.cwd, "env": SERVER_ENV, **as_user}
    return Started(launch.argv, popen, (launch.lock.descriptor,), after)
