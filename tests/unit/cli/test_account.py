"""Signing in and out, tokens, profiles, tenants."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import httpx

from cli.client import Client
from cli.config import ConfigStore, Profile
from tests.unit.cli.conftest import Berth
from tests.unit.cli.portal import ADA, PASSWORD, FakePortal

URL = ("--url", "http://127.0.0.1:8000", "--email", ADA)


def test_login_keeps_tokens_for_the_owner_only(berth: Berth, config_file: Path) -> None:
    outcome = berth("login", *URL, stdin=PASSWORD + "\n")

    assert (outcome.code, outcome.text) == (0, f"Signed in to http://127.0.0.1:8000 as {ADA}, tenant lab.\n")
    assert config_file.stat().st_mode & 0o777 == 0o600
    assert config_file.parent.stat().st_mode & 0o777 == 0o700
    kept = json.loads(config_file.read_text())["profiles"]["default"]
    assert (kept["access"], kept["refresh"], kept["tenant"]) == ("access-1", "refresh-1", "lab")
    assert PASSWORD not in config_file.read_text()


def test_login_with_a_wrong_password(berth: Berth, config_file: Path) -> None:
    outcome = berth("login", *URL, stdin="wrong\n")

    assert outcome.code == 3
    assert outcome.err == "berth: Email or password is wrong.\n  Check the email address and the password.\n"
    assert not config_file.exists()


def test_login_without_a_password_or_address(berth: Berth) -> None:
    assert berth("login", *URL).err.startswith("berth: No password was given.")
    assert berth("login").code == 2
    assert "--url is missing" in berth("login").err


def test_login_refuses_what_is_no_address(berth: Berth) -> None:
    outcome = berth("login", "--url", "ftp://x", "--email", ADA, stdin=PASSWORD)
    assert outcome.code == 2
    assert "https://berth.example.org" in outcome.err


def test_login_warns_of_an_open_line(berth: Berth) -> None:
    assert "not encrypted" in berth("login", "--url", "http://berth.test", "--email", ADA, stdin=PASSWORD).err
    assert "not encrypted" not in berth("login", *URL, stdin=PASSWORD).err


def test_login_with_several_tenants_asks_to_choose(berth: Berth, portal: FakePortal) -> None:
    portal.tenants.append({"id": "2", "slug": "vision", "name": "Vision", "role": "member"})

    assert "Choose one: berth tenant use SLUG" in berth("login", *URL, stdin=PASSWORD).text
    assert berth("tenant", "use", "vision").text == "Now acting in tenant vision (Vision).\n"
    assert berth("job", "ls", "--json").json() == []
    assert portal.requests[-1].headers["Berth-Tenant"] == "vision"
    assert "vision (member, in use)" in berth("whoami").text


def test_tenant_use_refuses_a_foreign_one(signed_in: Berth) -> None:
    outcome = signed_in("tenant", "use", "other")
    assert (outcome.code, outcome.err) == (4, "berth: You are in no tenant 'other'.\n  Yours: lab.\n")


def test_tenant_list(signed_in: Berth) -> None:
    assert signed_in("tenant", "ls", "-o", "name").text == "lab\n"


def test_whoami(signed_in: Berth) -> None:
    assert signed_in("whoami").text.splitlines()[0] == f"Person    Ada <{ADA}>"
    assert signed_in("whoami", "--json").json()["url"] == "http://portal.test"


def test_logout_forgets_the_tokens(signed_in: Berth, portal: FakePortal, config_file: Path) -> None:
    assert signed_in("logout").text == "Signed out of http://portal.test.\n"
    assert json.loads(portal.requests[-1].content) == {"refresh": "refresh-1"}
    assert "refresh-1" not in config_file.read_text()
    outcome = signed_in("whoami")
    assert (outcome.code, outcome.err) == (3, "berth: You are not signed in.\n  Sign in: berth login\n")
    assert signed_in("logout").text == "You are not signed in.\n"


def test_profiles_are_apart(signed_in: Berth, config_file: Path) -> None:
    signed_in("login", "--profile", "staging", "--url", "http://localhost:9", "--email", ADA, stdin=PASSWORD)

    assert ConfigStore(config_file).names() == ["default", "staging"]
    assert signed_in("whoami", "--json").json()["profile"] == "staging"
    assert ConfigStore(config_file).profile("default")[1].access == "access-1"


def test_a_stale_token_is_refreshed_before_use(signed_in: Berth, portal: FakePortal, config_file: Path) -> None:
    _, profile = ConfigStore(config_file).profile()
    ConfigStore(config_file).save("default", Profile(**{**vars(profile), "expires_at": 1.0}))

    assert signed_in("quota").code == 0
    assert [request.url.path for request in portal.requests] == ["/api/v1/auth/refresh", "/api/v1/quota"]
    assert ConfigStore(config_file).profile()[1].refresh == "refresh-2"


def test_a_refused_token_is_refreshed_once(signed_in: Berth, portal: FakePortal) -> None:
    refused = iter([True])
    portal.before = lambda request: (
        httpx.Response(401) if "quota" in request.url.path and next(refused, False) else None
    )
    assert signed_in("quota").code == 0
    assert portal.token == 2


def test_an_ended_sign_in_says_so(signed_in: Berth, portal: FakePortal) -> None:
    portal.token = 7
    outcome = signed_in("quota")
    assert (outcome.code, outcome.err) == (3, "berth: Your sign-in has ended.\n  Sign in: berth login\n")


def test_many_clients_use_a_refresh_token_once(portal: FakePortal, tmp_path: Path) -> None:
    portal.token = 1
    path = tmp_path / "config.json"
    old = Profile(url="http://portal.test", access="access-0", refresh="refresh-1", expires_at=1.0)
    ConfigStore(path).save("default", old)
    tokens: list[str] = []

    def work() -> None:
        http = httpx.Client(base_url="http://portal.test/api/v1", transport=httpx.MockTransport(portal.handle))
        tokens.append(Client(ConfigStore(path), "default", old, http=http).access_token())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert tokens == ["access-2"] * 8


def test_a_widened_config_is_narrowed_again(signed_in: Berth, config_file: Path) -> None:
    config_file.chmod(0o644)
    signed_in("whoami")
    assert config_file.stat().st_mode & 0o777 == 0o600


def test_a_broken_config_says_what_to_do(signed_in: Berth, config_file: Path) -> None:
    config_file.write_text("{")
    outcome = signed_in("whoami")
    assert outcome.code == 2
    assert "sign in again" in outcome.err


def test_the_language_of_the_person_is_asked_for(signed_in: Berth, portal: FakePortal, monkeypatch: Any) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    signed_in("quota")
    assert portal.requests[-1].headers["Accept-Language"].startswith("zh-hans")
