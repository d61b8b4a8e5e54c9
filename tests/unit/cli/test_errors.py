"""How failures are told, and their exit codes."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from cli.problems import problem_of
from tests.unit.cli.conftest import Berth
from tests.unit.cli.portal import FakePortal, problem


def test_fields_are_told_one_per_line(signed_in: Berth, portal: FakePortal) -> None:
    wrong = {"gpus": "Give a whole number from 0 to 64.", "files": {"0": {"path": ["Too long."]}}}
    portal.before = lambda request: problem(422, "invalid_input", "The job can't be submitted.", **wrong)
    outcome = signed_in("job", "submit", "--name", "a", "--image", "b", "--", "true")
    assert outcome.code == 2
    assert outcome.err.splitlines() == [
        "berth: The job can't be submitted.",
        "  gpus: Give a whole number from 0 to 64.",
        "  files.0.path: Too long.",
    ]


@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [(400, "tenant_required", 2), (403, "forbidden", 4), (404, "not_found", 4), (409, "conflict", 1),
     (409, "quota_exceeded", 1), (422, "invalid_input", 2), (429, "throttled", 1), (500, "error", 1),
     (503, "unavailable", 5)],
)  # fmt: skip
def test_exit_codes_of_answers(signed_in: Berth, portal: FakePortal, status: int, code: str, exit_code: int) -> None:
    portal.before = lambda request: problem(status, code, "No.")
    outcome = signed_in("quota")
    assert outcome.code == exit_code
    assert "berth: No." in outcome.err


def test_a_proxy_page_is_told_in_words() -> None:
    told = problem_of(httpx.Response(502, html="<h1>Bad Gateway</h1>"))
    assert told.message == "The portal answered 502 Bad Gateway."


def test_no_connection_says_the_url_and_what_to_check(signed_in: Berth, portal: FakePortal) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("[Errno 111] Connection refused")

    portal.before = refuse
    outcome = signed_in("quota")
    assert outcome.code == 5
    assert "berth: No connection to http://portal.test ([Errno 111] Connection refused)." in outcome.err
    assert "Check that the portal runs and that portal.test is right" in outcome.err


def test_an_untrusted_certificate_says_how_to_trust_it(signed_in: Berth, portal: FakePortal) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed")

    portal.before = refuse
    assert "--ca-file FILE" in signed_in("quota").err


def test_a_short_outage_is_not_noticed(signed_in: Berth, portal: FakePortal) -> None:
    answers = iter([httpx.Response(503)])
    portal.before = lambda request: next(answers, None)
    outcome = signed_in("quota")
    assert (outcome.code, outcome.err) == (0, "")


def test_a_mistyped_verb_gets_a_suggestion(berth: Berth) -> None:
    outcome = berth("job", "lst")
    assert outcome.code == 2
    assert "Did you mean" in outcome.err


def test_wrong_options_are_usage(berth: Berth) -> None:
    assert berth("job", "ls", "--nope").code == 2
    assert berth("job", "ls", "--json", "-o", "yaml").code == 2


def test_not_signed_in_at_all(berth: Berth, config_file: Path) -> None:
    outcome = berth("job", "ls")
    assert outcome.code == 3
    assert not config_file.exists()


def test_ctrl_c_is_130(signed_in: Berth, portal: FakePortal) -> None:
    def interrupt(request: httpx.Request) -> httpx.Response:
        raise KeyboardInterrupt

    portal.before = interrupt
    assert signed_in("quota").code == 130


def test_help_of_every_verb_has_no_rich_and_no_network(berth: Berth, portal: FakePortal) -> None:
    for words in (["job", "submit"], ["job", "logs"], ["node", "add"], ["login"], ["quota"]):
        outcome = berth(*words, "--help")
        assert outcome.code == 0
        assert "Examples:" in outcome.text
    assert portal.requests == []


def test_something_else_than_a_portal(signed_in: Berth, portal: FakePortal) -> None:
    portal.add_job(state="ended", result="failed", attempts=[])
    portal.before = lambda request: httpx.Response(200, html="<h1>It works!</h1>")
    outcome = signed_in("quota")
    assert outcome.code == 1
    assert "did not answer as a Berth portal does" in outcome.err
    portal.before = lambda request: httpx.Response(301, headers={"Location": "https://new.test/"})
    assert "has moved to https://new.test/" in signed_in("quota").err
