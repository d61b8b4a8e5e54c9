"""Pure parts of the embedded servers: addresses, verifiers, layouts, locks."""

import base64
import hashlib
import hmac
import os
import stat
from pathlib import Path

import pytest

from portal import embedded
from portal.embedded import layout, scram
from portal.embedded.external import broker_url, with_database, with_database_name
from portal.env import load


def test_scram_verifier_follows_the_rfc() -> None:
    """Client and server proof of RFC 7677's example, from its salt and iteration count."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    kind, rest, keys = scram.verifier("pencil", salt).split("$")
    stored, server = (base64.b64decode(key) for key in keys.split(":"))
    message = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    assert (kind, rest) == ("SCRAM-SHA-256", "4096:W22ZaJ0SNY7soEsUEjb6gQ==")
    assert base64.b64encode(hmac.digest(server, message, "sha256")) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(stored, message, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == stored


@pytest.mark.parametrize(
    ("given", "celery"),
    [
        ("redis://:pw@host:6379/3", "redis://:pw@host:6379/3"),
        ("unix://:pw@/run/x.sock?db=3", "redis+socket://:pw@/run/x.sock?virtual_host=3"),
        ("unix://:pw@/run/x.sock", "redis+socket://:pw@/run/x.sock?virtual_host=0"),
    ],
)
def test_broker_url(given: str, celery: str) -> None:
    assert broker_url(given) == celery


def test_addresses_with_another_database() -> None:
    assert with_database("unix://:pw@/run/x.sock?db=3", 7) == "unix://:pw@/run/x.sock?db=7"
    assert with_database("redis://:pw@host:6379/3?ssl=1", 7) == "redis://:pw@host:6379/7?ssl=1"
    assert with_database_name("postgresql://u:p@%2Frun/berth", "t 1") == "postgresql://u:p@%2Frun/t%201"


def test_resolve_takes_external_addresses(tmp_path: Path) -> None:
    env = load(
        {"BERTH_DATA_DIR": str(tmp_path), "DATABASE_URL": "postgresql://u:p@h/d", "REDIS_URL": "redis://h:6379/0"}
    )
    servers = embedded.resolve(env)
    assert (servers.database_url, servers.redis_url) == ("postgresql://u:p@h/d", "redis://h:6379/0")
    assert "p@h" not in repr(servers)


def test_sockets_stay_near_while_their_path_is_short_enough(tmp_path: Path) -> None:
    short = load({"BERTH_DATA_DIR": "/srv/berth"})
    long = load({"BERTH_DATA_DIR": str(tmp_path / ("x" * 100))})
    assert layout.socket_dir(short, short.data_dir) == Path("/srv/berth/run")
    far = layout.socket_dir(long, long.data_dir)
    assert len(os.fsencode(far / layout.LONGEST_SOCKET_NAME)) <= layout.SOCKET_PATH_BYTES
    assert far == layout.socket_dir(long, long.data_dir)


def test_a_recorded_place_is_kept(tmp_path: Path) -> None:
    env = load({"BERTH_DATA_DIR": str(tmp_path)})
    (tmp_path / "embedded.json").write_text('{"home": "/var/lib/berth/abc"}')
    assert layout.find(env).postgres == Path("/var/lib/berth/abc/postgres")
    (tmp_path / "embedded.json").write_text("{")
    with pytest.raises(embedded.EmbeddedError, match=r"embedded\.json"):
        layout.find(env)


def test_a_private_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    layout.own(folder, None)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o755)
    with pytest.raises(embedded.EmbeddedError, match="private"):
        layout.own(folder, None)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    with pytest.raises(embedded.EmbeddedError, match="private"):
        layout.own(link, None)
