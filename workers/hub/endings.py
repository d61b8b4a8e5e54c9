"""From an agent's words for an end to the portal's."""

from collections.abc import Mapping
from typing import Any

from apps.workloads.choices import EndReason
from apps.workloads.types import EndInfo
from workers.link.types import Status

_OVERDUE = ("start_expired", "superseded")


def end_of(status: Status) -> EndInfo:
    """Returns how an attempt ended; user fault, node fault, signal, memory and time limit told apart."""
    data = status.data
    ran_ns = int(data.get("ran_ns") or 0)
    if status.state == "exited":
        return _exited(data, ran_ns)
    if status.state == "failed":
        user = data.get("fault") == "user"
        return EndInfo(
            reason=EndReason.USER_FAULT if user else EndReason.NODE_FAULT, ran_ns=ran_ns,
            detail=f"{data.get('message') or data.get('code') or 'no reason given'} (while: {data.get('stage')})",
        )  # fmt: skip
    if status.state == "cancelled":
        overdue = data.get("reason") in _OVERDUE
        detail = "it did not start in time" if overdue else "stopped before its container ran"
        return EndInfo(reason=EndReason.NODE_FAULT if overdue else EndReason.CANCELLED, detail=detail)
    detail = "the node was rebooted" if data.get("reason") == "reboot" else "its container vanished from the node"
    return EndInfo(reason=EndReason.NODE_LOST, ran_ns=ran_ns, detail=detail)


def _exited(data: Mapping[str, Any], ran_ns: int) -> EndInfo:
    code, signal = data.get("exit_code"), str(data.get("signal") or "")
    exit_code = int(code) if code is not None else None
    reason, detail = EndReason.EXIT_CODE, ""
    if data.get("oom"):
        reason = EndReason.OUT_OF_MEMORY
    elif data.get("timed_out"):
        reason = EndReason.TIME_LIMIT
    elif data.get("stopped") in _OVERDUE:
        reason, detail = EndReason.NODE_FAULT, "it did not start in time"
    elif data.get("stopped"):
        reason = EndReason.CANCELLED
    elif signal:
        reason = EndReason.SIGNAL
    elif exit_code == 0:
        reason = EndReason.EXITED
    return EndInfo(reason=reason, ran_ns=ran_ns, exit_code=exit_code, signal=signal, detail=detail)
