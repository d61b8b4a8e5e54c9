"""The settings of an installation: defaults, errors that say what to set, secrets made once."""

import base64
import os
import stat
import threading
from pathlib import Path

import pytest

from portal.env import Env, EnvError, database_settings, load


def env_of(folder: Path, **values: str) -> Env:
    return load({"BERTH_DATA_DIR": str(folder), **values})


def test_defaults_change_nothing_on_disk(tmp_path: Path) -> None:
    env = env_of(tmp_path / "data")
    assert (env.http_host, env.http_port, env.database_url, env.redis_url) == ("127.0.0.1", 8000, "", "")
    assert env.public_url == "http://127.0.0.1:8000"
    assert env.smtp_host == ""
    assert not (tmp_path / "data").exists()


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "berth.env").write_text(
        "# a comment\n\nexport BERTH_HTTP_PORT='9001'\nBERTH_MAIL_FROM=\"ops@example.org\"\n"
    )
    assert env_of(tmp_path).http_port == 9001
    assert env_of(tmp_path).mail_from == "ops@example.org"
    assert env_of(tmp_path, BERTH_HTTP_PORT="9002").http_port == 9002


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BERTH_HTTP_PORT", "eighty"),
        ("BERTH_HTTP_PORT", "0"),
        ("BERTH_HTTP_PORT", "65536"),
        ("BERTH_HTTP_PORT", "٨٠٠٠"),
        ("BERTH_SMTP_PORT", "-1"),
        ("BERTH_SMTP_SECURITY", "ssl3"),
        ("DATABASE_URL", "mysql://localhost/berth"),
        ("REDIS_URL", "localhost:6379"),
        ("BERTH_PUBLIC_URL", "berth.example.org"),
        ("BERTH_SECRET_KEY", "short"),
        ("BERTH_MASTER_KEY", "not base64!"),
        ("BERTH_MASTER_KEY", base64.b64encode(b"too short").decode()),
    ],
)
def test_a_wrong_value_is_refused_by_name(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(EnvError, match=name):
        env_of(tmp_path, **{name: value})


def test_a_broken_file_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "berth.env").write_text("BERTH_HTTP_PORT=9001\njust words\n")
    with pytest.raises(EnvError, match="line 2"):
        env_of(tmp_path)


def test_secrets_are_made_once_and_private(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    first = env_of(folder)
    assert len(first.master_key) == 32
    assert len(first.secret_key) >= 50
    again = env_of(folder)
    assert (again.master_key, again.secret_key) == (first.master_key, first.secret_key)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o711
    assert stat.S_IMODE((folder / "secrets").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder / "secrets").iterdir()} == {0o600}


def test_processes_that_start_together_agree_on_a_secret(tmp_path: Path) -> None:
    seen: list[bytes] = []
    threads = [threading.Thread(target=lambda: seen.append(env_of(tmp_path / "data").master_key)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert len(set(seen)) == 1
    assert [path.name for path in (tmp_path / "data" / "secrets").iterdir()] == ["master_key"]


def test_an_empty_secret_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "master_key").touch()
    with pytest.raises(EnvError, match="is empty"):
        _ = env_of(tmp_path).master_key


def test_given_keys_are_used(tmp_path: Path) -> None:
    key = os.urandom(32)
    env = env_of(tmp_path / "data", BERTH_MASTER_KEY=base64.b64encode(key).decode(), BERTH_SECRET_KEY="s" * 50)
    assert (env.master_key, env.secret_key) == (key, "s" * 50)
    assert not (tmp_path / "data").exists()


def test_secrets_do_not_show(tmp_path: Path) -> None:
    env = env_of(
        tmp_path,
        DATABASE_URL="postgresql://u:hidden-1@h/db",
        REDIS_URL="redis://:hidden-2@h/0",
        BERTH_SMTP_PASSWORD="hidden-3",
        BERTH_SECRET_KEY="hidden-4" * 8,
        BERTH_MASTER_KEY=base64.b64encode(b"hidden-5" * 4).decode(),
    )
    assert "hidden" not in repr(env)
    assert base64.b64encode(b"hidden-5" * 4).decode() not in repr(env)


@pytest.mark.parametrize(
    ("host", "setting", "shown"),
    [
        ("0.0.0.0", "", "http://127.0.0.1:8000"),  # noqa: S104
        ("::1", "", "http://[::1]:8000"),
        ("127.0.0.1", "https://berth.example.org/", "https://berth.example.org"),
    ],
)
def test_public_url(tmp_path: Path, host: str, setting: str, shown: str) -> None:
    assert env_of(tmp_path, BERTH_HTTP_HOST=host, BERTH_PUBLIC_URL=setting).public_url == shown


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "postgresql://berth:p%40w@db.example:5433/berth?sslmode=require",
            {"NAME": "berth", "USER": "berth", "PASSWORD": "p@w", "HOST": "db.example", "PORT": "5433"},
        ),
        (
            "postgresql://berth:pw@%2FHome%2Frun/berth",
            {"NAME": "berth", "USER": "berth", "PASSWORD": "pw", "HOST": "/Home/run", "PORT": ""},
        ),
        (
            "postgresql:///berth?host=/run/postgresql",
            {"NAME": "berth", "USER": "", "PASSWORD": "", "HOST": "/run/postgresql", "PORT": ""},
        ),
        (
            "postgresql://u@[::1]:5432/d",
            {"NAME": "d", "USER": "u", "PASSWORD": "", "HOST": "::1", "PORT": "5432"},
        ),
    ],
)
def test_database_settings(url: str, expected: dict[str, str]) -> None:
    settings = database_settings(url)
    options = settings.pop("OPTIONS")
    assert settings == expected
    assert options == ({"sslmode": "require"} if "sslmode" in url else {})


def test_a_file_in_the_folders_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(EnvError, match="not a folder"):
        _ = env_of(tmp_path / "data").secret_key
