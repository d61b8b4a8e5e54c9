"""What Berth reads from its surroundings, typed and checked in one place (no Django here)."""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

REPO_DIR = Path(__file__).resolve().parent.parent
MASTER_KEY_BYTES = 32
SMTP_SECURITY = ("none", "starttls", "tls")


class EnvError(Exception):
    """A setting is missing or wrong; the message says what to set."""


@dataclass(frozen=True)
class Env:
    """The settings of one Berth installation; secrets are created in the data folder on first use."""

    data_dir: Path
    repo_dir: Path = REPO_DIR
    database_url: str = field(default="", repr=False)
    redis_url: str = field(default="", repr=False)
    http_host: str = "127.0.0.1"
    http_port: int = 8000
    public_url_setting: str = ""
    smtp_host: str = ""
    smtp_port: int = 25
    smtp_user: str = ""
    smtp_password: str = field(default="", repr=False)
    smtp_security: str = "none"
    mail_from: str = "berth@localhost"
    server_user: str = "berth"
    secret_key_setting: str = field(default="", repr=False)
    master_key_setting: str = field(default="", repr=False)
    allowed_hosts_setting: tuple[str, ...] = ()
    node_down_after_s: int = 1800
    db_pool_size: int = 8

    @property
    def public_url(self) -> str:
        """Address under which people reach the console, without a trailing slash."""
        if self.public_url_setting:
            return self.public_url_setting
        host = "127.0.0.1" if self.http_host in ("0.0.0.0", "::") else self.http_host  # noqa: S104 - compared only
        return f"http://{_bracketed(host)}:{self.http_port}"

    @property
    def allowed_hosts(self) -> list[str]:
        """Host names under which requests are answered: the public one, loopback, and those that were set."""
        own = urlsplit(self.public_url).hostname or ""
        return sorted({own, "127.0.0.1", "localhost", "[::1]", *self.allowed_hosts_setting} - {""})

    @property
    def secrets_dir(self) -> Path:
        """Folder of generated secrets (0700)."""
        return self.data_dir / "secrets"

    @property
    def logs_dir(self) -> Path:
        """Folder of process logs."""
        return self.data_dir / "logs"

    @property
    def mail_dir(self) -> Path:
        """Folder into which the mail sink writes."""
        return self.data_dir / "mail"

    @property
    def secret_key(self) -> str:
        """Key of Django's signatures."""
        return self.secret_key_setting or self.secret("secret_key", lambda: secrets.token_urlsafe(48))

    @property
    def master_key(self) -> bytes:
        """The 32 bytes that wrap all other keys."""
        text = self.master_key_setting or self.secret(
            "master_key", lambda: base64.b64encode(secrets.token_bytes(MASTER_KEY_BYTES)).decode()
        )
        return _master_key(text)

    def secret(self, name: str, make: Callable[[], str]) -> str:
        """Return the secret of that name from the data folder; the first caller makes it."""
        self.make_data_dir()
        make_dir(self.secrets_dir, 0o700)
        return _read_or_create(self.secrets_dir / name, make)

    def make_data_dir(self) -> None:
        """Create the data folder; others may pass through it (the server user must) but not list it."""
        make_dir(self.data_dir, 0o711)

    def with_changes(self, **changes: object) -> Env:
        """Return a copy with some fields replaced."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def with_free_port(self, attempts: int = 50) -> Env:
        """Return a copy whose HTTP port is this one or the next that is free."""
        for port in range(self.http_port, min(self.http_port + attempts, 65536)):
            if port_is_free(self.http_host, port):
                return self.with_changes(http_port=port)
        raise EnvError(f"No free port from {self.http_port} on {self.http_host}: set BERTH_HTTP_PORT to a free one.")

    def check_port(self) -> None:
        """Raise EnvError when the HTTP port is in use."""
        if not port_is_free(self.http_host, self.http_port):
            raise EnvError(
                f"Port {self.http_port} on {self.http_host} is in use by another program: "
                f"set BERTH_HTTP_PORT to another one (for example BERTH_HTTP_PORT={self.http_port + 1})."
            )


def load(environ: Mapping[str, str] | None = None) -> Env:
    """Read the settings from the environment and the data folder's berth.env (the environment wins).

    Raises EnvError with the name of the setting to correct.
    """
    given = dict(os.environ if environ is None else environ)
    data_dir = Path(given.get("BERTH_DATA_DIR") or REPO_DIR / ".berth").expanduser().absolute()
    values = {**_read_env_file(data_dir / "berth.env"), **given}
    return Env(
        data_dir=data_dir,
        database_url=_url(
            values, "DATABASE_URL", ("postgres", "postgresql"), "postgresql://USER:PASSWORD@HOST:5432/NAME"
        ),
        redis_url=_url(values, "REDIS_URL", ("redis", "rediss", "unix"), "redis://:PASSWORD@HOST:6379/0"),
        http_host=values.get("BERTH_HTTP_HOST") or "127.0.0.1",
        http_port=_port(values, "BERTH_HTTP_PORT", 8000),
        public_url_setting=_url(values, "BERTH_PUBLIC_URL", ("http", "https"), "https://berth.example.org").rstrip("/"),
        smtp_host=values.get("BERTH_SMTP_HOST", ""),
        smtp_port=_port(values, "BERTH_SMTP_PORT", 25),
        smtp_user=values.get("BERTH_SMTP_USER", ""),
        smtp_password=values.get("BERTH_SMTP_PASSWORD", ""),
        smtp_security=_choice(values, "BERTH_SMTP_SECURITY", SMTP_SECURITY),
        mail_from=values.get("BERTH_MAIL_FROM") or "berth@localhost",
        server_user=values.get("BERTH_SERVER_USER") or "berth",
        secret_key_setting=_secret_key(values),
        master_key_setting=_checked_master_key(values),
        allowed_hosts_setting=tuple(h.strip() for h in values.get("BERTH_ALLOWED_HOSTS", "").split(",") if h.strip()),
        node_down_after_s=_number(values, "BERTH_NODE_DOWN_AFTER_S", 1800),
        db_pool_size=_number(values, "BERTH_DB_POOL_SIZE", 8, least=0),
    )


def database_settings(url: str) -> dict[str, Any]:
    """Return NAME, USER, PASSWORD, HOST, PORT and OPTIONS of a PostgreSQL URL, as Django's DATABASES wants them.

    `urlsplit().hostname` is no use for a socket's folder: it is lower-cased.
    """
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    host = (
        unquote(parts.netloc.rpartition("@")[2].partition(":")[0]) if "%2F" in parts.netloc.upper() else parts.hostname
    )
    return {
        "NAME": unquote(parts.path.removeprefix("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.pop("host", None) or host or "",
        "PORT": str(parts.port or query.pop("port", "")),
        "OPTIONS": query,
    }


def _number(values: Mapping[str, str], name: str, default: int, *, least: int = 1) -> int:
    text = values.get(name) or str(default)
    if not text.isdigit() or int(text) < least:
        raise EnvError(f"{name} is {text!r}: give a whole number of {least} or more.")
    return int(text)


def port_is_free(host: str, port: int) -> bool:
    """Say whether a TCP server could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def make_dir(path: Path, mode: int) -> None:
    """Create a folder (and its parents) with that mode; an existing one is left as it is."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=mode)
    except FileExistsError:
        if path.is_dir():
            return
        raise EnvError(f"{path} is not a folder: move it away or set BERTH_DATA_DIR to another folder.") from None
    except OSError as error:
        raise EnvError(f"Cannot create {path} ({error.strerror}): set BERTH_DATA_DIR to a folder you own.") from None
    path.chmod(mode)  # mkdir's mode is cut by the umask


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _read_env_file(path: Path) -> dict[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise EnvError(f"Cannot read {path} ({error.strerror}): run as its owner.") from None
    values = {}
    for number, line in enumerate(text.splitlines(), start=1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        name, equals, value = entry.removeprefix("export ").partition("=")
        if not equals or not name.strip().isidentifier():
            raise EnvError(f"{path} line {number} is not NAME=VALUE: correct or remove it.")
        values[name.strip()] = _unquoted(value.strip())
    return values


def _unquoted(value: str) -> str:
    quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def _url(values: Mapping[str, str], name: str, schemes: tuple[str, ...], example: str) -> str:
    url = values.get(name, "").strip()
    if url and urlsplit(url).scheme not in schemes:
        raise EnvError(f"{name} must look like {example}; leave it empty for Berth's own.")
    return url


def _port(values: Mapping[str, str], name: str, default: int) -> int:
    text = values.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise EnvError(f"{name} must be a port number from 1 to 65535, not {text!r}.")
    return int(text)


def _choice(values: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    text = values.get(name, "").strip() or allowed[0]
    if text not in allowed:
        raise EnvError(f"{name} must be one of {', '.join(allowed)}, not {text!r}.")
    return text


def _secret_key(values: Mapping[str, str]) -> str:
    key = values.get("BERTH_SECRET_KEY", "")
    if key and len(key) < MASTER_KEY_BYTES:
        raise EnvError("BERTH_SECRET_KEY is too short: set 50 random characters, or leave it empty to have one made.")
    return key


def _checked_master_key(values: Mapping[str, str]) -> str:
    text = values.get("BERTH_MASTER_KEY", "").strip()
    if text:
        _master_key(text)
    return text


def _master_key(text: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != MASTER_KEY_BYTES:
        raise EnvError(
            "BERTH_MASTER_KEY must be 32 random bytes in base64 (openssl rand -base64 32), or empty to have one made."
        )
    return key


def _read_or_create(path: Path, make: Callable[[], str]) -> str:
    """Read a secret file; create it whole and once, also when several processes start together."""
    try:
        if not path.exists():
            _create(path, make())
        value = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise EnvError(
            f"Cannot read or create {path} ({error.strerror}): run as the owner of the data folder."
        ) from None
    if not value:
        raise EnvError(f"{path} is empty: restore it from a backup (deleting it makes a new secret).")
    return value


def _create(path: Path, value: str) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent)  # mkstemp: mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(value + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(name, path)  # fails when another process was first, and theirs is then read
    except FileExistsError:
        pass
    finally:
        Path(name).unlink(missing_ok=True)
