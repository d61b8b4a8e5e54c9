"""Pure parts of the supervisor: back-off, log files, table, control protocol, mail."""

import signal
from email.message import EmailMessage
from pathlib import Path

import pytest

from portal import mailsink
from portal.env import load
from portal.supervisor import Backoff, SupervisorError, select
from portal.supervisor.control import _answer, socket_path
from portal.supervisor.ctl import _signal
from portal.supervisor.logfile import RotatingLog, tail
from portal.supervisor.spec import ProcessSpec, Report


def test_backoff_doubles_up_to_its_bound() -> None:
    backoff = Backoff(first=0.2, most=5.0)
    assert [backoff.pause(n) for n in (1, 2, 3, 4, 5, 6, 7, 1000)] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_a_full_log_is_rotated_and_the_oldest_goes(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "x.log", max_bytes=10, kept=2)
    for line in (b"first 1\n", b"second\n", b"third 3\n", b"fourth\n"):
        log.write(line)
    log.close()
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert kept == {"x.log": b"fourth\n", "x.log.1": b"third 3\n", "x.log.2": b"second\n"}


def test_a_log_goes_on_after_a_restart(tmp_path: Path) -> None:
    for line in (b"one\n", b"two \xff\n"):
        log = RotatingLog(tmp_path / "x.log")
        log.write(line)
        log.close()
    assert tail(tmp_path / "x.log", 5) == ["one", "two \ufffd"]
    assert tail(tmp_path / "x.log", 1) == ["two \ufffd"]
    assert tail(tmp_path / "none.log", 5) == []


def test_select_keeps_order_and_names_what_is_unknown() -> None:
    table = [ProcessSpec(name) for name in ("postgres", "redis", "web")]
    assert [spec.name for spec in select(table, ["web", "postgres"], [])] == ["postgres", "web"]
    assert [spec.name for spec in select(table, [], ["redis"])] == ["postgres", "web"]
    with pytest.raises(SupervisorError, match="wbe"):
        select(table, ["wbe"], [])


@pytest.mark.parametrize(("text", "number"), [("KILL", 9), ("sigterm", 15), ("2", 2)])
def test_signals_by_name_and_number(text: str, number: int) -> None:
    assert _signal(text) == number


@pytest.mark.parametrize("text", ["KILLL", "0", "400", ""])
def test_unknown_signals(text: str) -> None:
    with pytest.raises(SupervisorError, match="Unknown signal"):
        _signal(text)


class Fake:
    """Records what the control socket asked for."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def reports(self) -> list[Report]:
        return [Report("web", "ready", 7, 0, 1.5, "", "")]

    def restart(self, name: str) -> None:
        self.asked.append(name)

    def kill(self, name: str, number: int) -> bool:
        self.asked.append((name, number))
        return True

    def request_stop(self) -> None:
        self.asked.append("stop")


def test_control_requests() -> None:
    fake = Fake()
    assert _answer(fake, {"do": "ps"})["processes"][0]["pid"] == 7
    assert _answer(fake, {"do": "restart", "name": "web"}) == {"ok": True}
    assert _answer(fake, {"do": "kill", "name": "web", "signal": 9}) == {"ok": True}
    assert _answer(fake, {"do": "stop"})["ok"]
    assert fake.asked == ["web", ("web", signal.SIGKILL), "stop"]
    with pytest.raises(SupervisorError, match="dance"):
        _answer(fake, {"do": "dance"})


def test_the_control_socket_has_a_short_path(tmp_path: Path) -> None:
    long = load({"BERTH_DATA_DIR": str(tmp_path / ("x" * 100))})
    assert len(str(socket_path(long))) <= 107
    assert socket_path(load({"BERTH_DATA_DIR": "/srv/b"})) == Path("/srv/b/locks/supervisor.sock")


def test_mail_subjects_are_decoded_and_one_line(tmp_path: Path) -> None:
    message = EmailMessage()
    message["Subject"] = "任务 完成"
    message.set_content("x")
    assert mailsink.subject(message.as_bytes()) == "任务 完成"
    assert mailsink.subject(b"Subject: a\r\n b\r\n\r\nbody") == "a b"
    assert mailsink.subject(b"no headers at all") == "(no subject)"
    path = mailsink.keep(tmp_path, b"\xff\x00raw", "m")
    assert path.read_bytes() == b"\xff\x00raw"
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.eml"]
