"""The embedded Redis-protocol server (Valkey): unix socket and password, nothing kept on disk.

Messages are hints: everything that matters is a row in PostgreSQL, so losing this server's memory loses nothing.
"""

from __future__ import annotations

import secrets
import signal
from pathlib import Path
from urllib.parse import quote

import redis

from portal.embedded import binaries
from portal.embedded.files import write_private
from portal.embedded.launch import Launch, take_lock
from portal.embedded.layout import Layout
from portal.embedded.options import Options
from portal.env import Env

TITLE = "The Redis-protocol server"
STOP_SIGNAL = signal.SIGTERM
STOP_SECONDS = 10.0
START_SECONDS = 20.0


def password(env: Env) -> str:
    """Return the server's password (made once)."""
    return env.secret("redis_password", lambda: secrets.token_urlsafe(32))


def url(env: Env, layout: Layout, database: int = 0) -> str:
    """Return redis-py's URL (also taken by channels_redis)."""
    return f"unix://:{password(env)}@{quote(str(_socket(layout)))}?db={database}"


def lock_path(layout: Layout) -> Path:
    """Return the lock file that the server carries."""
    return layout.locks / "redis.lock"


def log_path(layout: Layout) -> Path:
    """Return the server's log of detached starts."""
    return layout.logs / "redis.log"


def launch(env: Env, layout: Layout, options: Options) -> Launch:
    """Lock the folder, write the configuration (it holds the password: 0600) and describe the server's start."""
    lock = take_lock(lock_path(layout), TITLE, env.data_dir)
    try:
        program = binaries.redis_server(layout.user)
        config = layout.redis / "valkey.conf"
        write_private(config, _config(env, layout, options), layout.user)
    except BaseException:
        lock.release()
        raise
    return Launch([str(program), str(config)], lock, layout.user, layout.redis)


def probe(env: Env, layout: Layout) -> None:
    """Raise unless the server answers."""
    with redis.Redis.from_url(url(env, layout), socket_timeout=3) as client:
        client.ping()


def _socket(layout: Layout) -> Path:
    return layout.sockets / "redis.sock"


def _config(env: Env, layout: Layout, options: Options) -> str:
    lines = [
        "port 0",
        f'unixsocket "{_socket(layout)}"',
        "unixsocketperm 700",
        f"requirepass {password(env)}",
        f'dir "{layout.redis}"',
        f"databases {options.redis_databases}",
        "daemonize no",
        'save ""',
        "appendonly no",
        "maxmemory-policy noeviction",
    ]
    return "\n".join(lines) + "\n"
