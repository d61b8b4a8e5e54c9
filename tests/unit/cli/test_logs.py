"""Logs: exact bytes, resumed at every offset, over attempts, through outages."""

from __future__ import annotations

import random
from typing import Any

import httpx
import pytest

from cli import logs
from cli.errors import UnreachableError
from cli.follow import Patience
from cli.terminal import TerminalFilter
from tests.unit.cli.conftest import Berth
from tests.unit.cli.portal import BrokenStream, FakePortal, problem

LOG = b"epoch 1\r\x00\xffepoch 2\x1b[31m\n" + bytes(range(256)) + "终\n".encode()


def ended_job(portal: FakePortal, log: bytes = LOG) -> dict[str, Any]:
    """Returns an ended job with this log."""
    job = portal.add_job()
    portal.run(job, log)
    portal.end(job)
    return job


def breaking(portal: FakePortal, cuts: list[int]) -> None:
    """Makes each next log answer break off after so many bytes."""

    def answer(whole: httpx.Response) -> httpx.Response:
        if not cuts:
            return whole
        return httpx.Response(200, stream=BrokenStream(whole.read()[: cuts.pop(0)]), headers=whole.headers)

    portal.log_answer = answer


def test_exact_bytes(signed_in: Berth, portal: FakePortal) -> None:
    ended_job(portal)
    for arguments in (["digits"], ["-f", "digits"], ["digits", "--raw"], ["digits", "--attempt", "1"]):
        outcome = signed_in("job", "logs", *arguments)
        assert (outcome.code, outcome.out) == (0, LOG)


def test_resumed_at_every_offset(signed_in: Berth, portal: FakePortal) -> None:
    log = LOG[:60]
    ended_job(portal, log)
    for cut in range(len(log) + 1):
        breaking(portal, [cut])
        outcome = signed_in("job", "logs", "-f", "digits")
        assert (outcome.code, outcome.out) == (0, log), cut


def test_resumed_after_many_breaks(signed_in: Berth, portal: FakePortal, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(1)  # noqa: S311
    log = chance.randbytes(200_000)
    monkeypatch.setattr(logs, "LARGEST_READ", 7000)
    ended_job(portal, log)
    breaking(portal, [chance.randrange(7000) for _ in range(40)])
    outcome = signed_in("job", "logs", "-f", "digits")
    assert (outcome.code, outcome.out) == (0, log)
    assert "Trying again" in outcome.err
    assert "The portal answers again." in outcome.err


def test_a_portal_that_restarts(signed_in: Berth, portal: FakePortal) -> None:
    job = portal.add_job()
    portal.run(job, LOG[:9])
    steps = iter([None, None, "down", "down", "502", "up"])

    def restart(request: httpx.Request) -> httpx.Response | None:
        if not request.url.path.endswith("/log"):
            return None
        step = next(steps, None)
        if step == "down":
            raise httpx.ConnectError("Connection refused")
        if step == "up":
            portal.logs[job["id"], 1] = LOG
            portal.end(job)
        return httpx.Response(502) if step == "502" else None

    portal.before = restart
    outcome = signed_in("job", "logs", "-f", "digits")
    assert (outcome.code, outcome.out) == (0, LOG)
    assert outcome.err.count("Trying again") == 1


def test_an_attempt_that_begins_while_the_log_is_asked_for(signed_in: Berth, portal: FakePortal) -> None:
    job = portal.add_job()

    def begin(request: httpx.Request) -> httpx.Response | None:
        if not request.url.path.endswith("/log") or job["state"] != "pending":
            return None
        portal.run(job, LOG)
        return problem(404, "not_found", "The job has no such attempt yet.")

    portal.before = begin
    portal.on_get_job = lambda one: portal.end(one) if one["state"] == "running" else None
    outcome = signed_in("job", "logs", "-f", job["id"])
    assert (outcome.code, outcome.out) == (0, LOG)


def test_following_grows_with_the_log(signed_in: Berth, portal: FakePortal) -> None:
    job = portal.add_job()
    pieces = [LOG[at : at + 20] for at in range(0, len(LOG), 20)]

    def grow(one: dict[str, Any]) -> None:
        if one["state"] == "pending":
            portal.run(one)
        elif pieces:
            portal.logs[one["id"], 1] += pieces.pop(0)
        else:
            portal.end(one)

    portal.on_get_job = grow
    outcome = signed_in("job", "logs", "-f", job["id"])
    assert (outcome.code, outcome.out) == (0, LOG)


def test_following_goes_on_to_the_next_attempt(signed_in: Berth, portal: FakePortal) -> None:
    job = portal.add_job()
    portal.run(job, b"one\n")

    def lose_then_end(one: dict[str, Any]) -> None:
        if len(one["attempts"]) == 1 and (one["id"], 1) not in portal.sealed:
            portal.sealed.add((one["id"], 1))
            one.update(state="pending", shown_state="pending")
        elif len(one["attempts"]) == 1:
            portal.run(one, b"two\n", no=2)
        else:
            portal.end(one)

    portal.on_get_job = lose_then_end
    outcome = signed_in("job", "logs", "-f", job["id"])
    assert (outcome.code, outcome.out) == (0, b"one\ntwo\n")
    assert "Attempt 1 ended. Attempt 2 follows." in outcome.err
    assert signed_in("job", "logs", job["id"], "--attempt", "1").out == b"one\n"
    assert signed_in("job", "logs", job["id"]).out == b"two\n"
    assert signed_in("job", "logs", "-f", job["id"], "--attempt", "1").out == b"one\n"


def test_a_failed_job_gives_1(signed_in: Berth, portal: FakePortal) -> None:
    job = portal.add_job()
    portal.run(job, b"oops\n")
    portal.end(job, "failed", code=2)
    outcome = signed_in("job", "logs", "-f", "digits")
    assert (outcome.code, outcome.out) == (1, b"oops\n")
    assert outcome.err == (
        "Job digits failed after 21 s. The command ended with exit code 2. The last lines of the log usually say why.\n"
    )
    assert signed_in("job", "logs", "digits").code == 0


def test_a_job_cancelled_before_it_started(signed_in: Berth, portal: FakePortal) -> None:
    portal.end(portal.add_job(), "cancelled")
    outcome = signed_in("job", "logs", "-f", "digits")
    assert (outcome.code, outcome.out) == (1, b"")
    assert "has no log yet" in signed_in("job", "logs", "digits").err


def test_ctrl_c_leaves_the_job_running(signed_in: Berth, portal: FakePortal) -> None:
    job = portal.add_job()
    portal.run(job, b"x\n")

    def interrupt(one: dict[str, Any]) -> None:
        if any(request.url.path.endswith("/log") for request in portal.requests):
            raise KeyboardInterrupt

    portal.on_get_job = interrupt
    outcome = signed_in("job", "logs", "-f", job["id"])
    assert (outcome.code, outcome.out, job["state"]) == (130, b"x\n", "running")
    assert outcome.err.splitlines() == [
        "", "Stopped watching; job digits goes on.",
        f"  Follow it again:  berth job logs -f {job['id']}", f"  Cancel it:        berth job cancel {job['id']}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("log", "lines", "shown"),
    [(b"a\nb\nc\n", 2, b"b\nc\n"), (b"a\nb\nc", 2, b"b\nc"), (b"a\nb\n", 9, b"a\nb\n"), (b"a\nb\n", 0, b""),
     (b"", 3, b""), (b"x" * 200_000 + b"\nend\n", 1, b"end\n"), (b"x\n" * 100_000, 50_000, b"x\n" * 50_000)],
)  # fmt: skip
def test_tail(signed_in: Berth, portal: FakePortal, log: bytes, lines: int, shown: bytes) -> None:
    ended_job(portal, log)
    for follow in ([], ["-f"]):
        assert signed_in("job", "logs", "digits", "--tail", str(lines), *follow).out == shown


def test_tail_of_an_endless_line_is_bounded(signed_in: Berth, portal: FakePortal) -> None:
    ended_job(portal, b"x" * 6_000_000)
    assert len(signed_in("job", "logs", "digits", "--tail", "1").out) == logs.LARGEST_READ


def test_an_attempt_that_was_not(signed_in: Berth, portal: FakePortal) -> None:
    ended_job(portal)
    outcome = signed_in("job", "logs", "digits", "--attempt", "2")
    assert (outcome.code, outcome.err) == (4, "berth: Job digits has no attempt 2.\n  It had 1.\n")


def test_damage_is_told(signed_in: Berth, portal: FakePortal) -> None:
    ended_job(portal)

    def damage(whole: httpx.Response) -> httpx.Response:
        body = bytearray(whole.read())
        body[3] ^= 1
        return httpx.Response(200, stream=httpx.ByteStream(bytes(body)), headers=whole.headers)

    portal.log_answer = damage
    outcome = signed_in("job", "logs", "digits")
    assert outcome.code == 1
    assert "do not match its SHA-256" in outcome.err


def test_a_hole_is_told(signed_in: Berth, portal: FakePortal) -> None:
    ended_job(portal)

    def skip(whole: httpx.Response) -> httpx.Response:
        whole.headers["Berth-Offset"] = "5"
        return httpx.Response(200, stream=httpx.ByteStream(whole.read()[5:]), headers=whole.headers)

    portal.log_answer = skip
    assert "no log bytes from 0 to 5" in signed_in("job", "logs", "digits").err


def test_patience_ends() -> None:
    clock = iter([0.0, 899.0, 901.0])
    patience = Patience(lambda text: None, clock=lambda: next(clock))
    error = UnreachableError("No connection.")
    assert patience.failed(error, "x") > 0
    assert patience.failed(error, "x") > 0
    with pytest.raises(UnreachableError) as caught:
        patience.failed(error, "berth job logs -f 1")
    assert "Go on later: berth job logs -f 1" in caught.value.report()


HOSTILE = [
    (b"plain \xff\n\t\r", b"plain \xff\n\t\r"),
    (b"\x1b[1;31mred\x1b[0m", b"\x1b[1;31mred\x1b[0m"),
    (b"\r\x1b[2K\x1b[1Abar", b"\r\x1b[2K\x1b[1Abar"),
    (b"a\x1b]0;title\x07b", b"ab"),
    (b"a\x1b]52;c;ZXZpbA==\x1b\\b", b"ab"),
    (b"a\x1bP+q\x1b\\b", b"ab"),
    (b"a\x1b[6nb\x1b[cb", b"abb"),
    (b"a\x1b[?1049hb", b"ab"),
    (b"a\x1b(0b\x1bcc", b"abc"),
    (b"a\x00\x07\x0e\x7fb", b"ab"),
]


@pytest.mark.parametrize(("hostile", "safe"), HOSTILE)
def test_a_log_can_not_reprogram_the_terminal(hostile: bytes, safe: bytes) -> None:
    assert TerminalFilter().feed(hostile) == safe
    for cut in range(len(hostile)):
        screen = TerminalFilter()
        assert screen.feed(hostile[:cut]) + screen.feed(hostile[cut:]) == safe, cut
    screen = TerminalFilter()
    assert b"".join(screen.feed(hostile[at : at + 1]) for at in range(len(hostile))) == safe


def test_an_endless_sequence_is_not_kept_for_ever() -> None:
    screen = TerminalFilter()
    out = screen.feed(b"\x1b]0;" + b"x" * 100_000) + screen.feed(b"y" * 100_000 + b"\n")
    assert out.endswith(b"y\n")
