"""An agent's words for an end become the portal's: user and node fault, signal, memory and time told apart."""

from typing import Any
from uuid import uuid4

import pytest

from workers.hub.endings import end_of
from workers.link.types import Status


def status(state: str, **data: Any) -> Status:
    return Status(attempt_id=uuid4(), seq=1, state=state, at_mono_ns=0, at_utc_ns=0, boot_id="b", data=data)


@pytest.mark.parametrize(
    ("state", "data", "reason"),
    [
        ("exited", {"exit_code": 0}, "exited"),
        ("exited", {"exit_code": 2}, "exit_code"),
        ("exited", {"exit_code": None}, "exit_code"),
        ("exited", {"exit_code": 139, "signal": "SIGSEGV"}, "signal"),
        ("exited", {"exit_code": 137, "signal": "SIGKILL", "oom": True, "stopped": "cancelled"}, "out_of_memory"),
        ("exited", {"exit_code": 143, "timed_out": True, "stopped": "time_limit"}, "time_limit"),
        ("exited", {"exit_code": 0, "stopped": "cancelled"}, "cancelled"),
        ("exited", {"exit_code": 0, "stopped": "start_expired"}, "node_fault"),
        ("failed", {"fault": "user", "stage": "pull", "message": "no such image"}, "user_fault"),
        ("failed", {"fault": "node", "stage": "create", "message": "disk full"}, "node_fault"),
        ("failed", {}, "node_fault"),
        ("cancelled", {"reason": "cancelled"}, "cancelled"),
        ("cancelled", {"reason": "start_expired"}, "node_fault"),
        ("lost", {"reason": "reboot", "ran_ns": 5}, "node_lost"),
        ("lost", {"reason": "container_gone"}, "node_lost"),
    ],
)
def test_ends_are_told_apart(state: str, data: dict[str, Any], reason: str) -> None:
    assert end_of(status(state, **data)).reason == reason


def test_numbers_and_words_are_kept() -> None:
    end = end_of(status("exited", exit_code=139, signal="SIGSEGV", ran_ns=7))
    assert (end.exit_code, end.signal, end.ran_ns) == (139, "SIGSEGV", 7)
    assert end_of(status("failed", fault="user", stage="pull", message="no such image")).detail == (
        "no such image (while: pull)"
    )
