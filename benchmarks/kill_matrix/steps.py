"""The rows: where a job is parked, and in which order, so that no parked job keeps another from its place."""

from __future__ import annotations

from dataclasses import dataclass

NODES = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Step:
    """One place on a job's way; `point` is its failpoint, on the node itself or in one of the portal's processes."""

    name: str
    what: str
    node: str
    point: str
    on_node: bool = False
    everybody: bool = False  # the point can't be armed for one job alone; nobody else passes it meanwhile
    nudged: bool = False  # the relay is parked already, so the driver itself sends the scheduler's hint
    run_s: float = 1.0
    outlasts: bool = False  # the job runs longer than the fault lasts


STEPS = {
    step.name: step
    for step in (
        Step("S1", "POST received, nothing written", "a", "S1"),
        Step("S2", "inside T1: job written, not committed", "a", "S2"),
        Step("S3", "relay has claimed the wake", "a", "S3", everybody=True),
        Step("S4", "snapshot taken", "a", "S4", everybody=True, nudged=True),
        Step("S5", "inside T2: placed, not committed", "b", "S5"),
        Step("S6", "relay has claimed the operation", "a", "S6"),
        Step("S7", "operation claimed by the node worker", "a", "S7"),
        Step("S8", "files in, operation not sent", "a", "S8"),
        Step("S9a", "agent before the container is created", "b", "before_create", on_node=True, everybody=True),
        Step("S9b", "container created, not started", "b", "after_create", on_node=True, everybody=True),
        Step("S9c", "container started, not reported", "b", "after_start", on_node=True, everybody=True),
        Step("S9d", "container ended, not reported", "b", "before_exit_report", on_node=True, everybody=True),
        Step("S10", "inside T4: running, not committed", "c", "S10", run_s=15.0),
        Step("S11", "log bytes written, not synced", "c", "S11", run_s=15.0, outlasts=True),
        Step("S12", "end received, not applied", "d", "S12"),
        Step("S13", "inside T5: ended, not committed", "d", "S13"),
        Step("S14", "mail due, not sent", "a", "S14"),
    )
}

# Later steps first: a job that is still to come must not pass a parked one. The first wave parks the mail worker,
# threads of the node worker, the agent, then the relay, the scheduler and two requests. The second holds row locks
# that stop the hub's heartbeat, so it must be quick; it can't be in the first, where the scheduler's lock is held.
WAVES = (
    ("S14", "S12", "S11", "S9d", "S9c", "S9b", "S9a", "S8", "S7", "S6", "S4", "S2", "S1"),
    ("S13", "S10", "S5", "S3"),
)
LINES_PER_S = 200
_BATCH = 20


def script(name: str, run_s: float) -> str:
    """Return the job's shell script; busybox knows all of it."""
    pause = f"[ $((i % {_BATCH})) -eq 0 ] && sleep {_BATCH / LINES_PER_S}"
    return f'i=0; while [ $i -lt {_lines(run_s)} ]; do echo "{name} line $i"; i=$((i+1)); {pause}; done; exit 0'


def expected_log(name: str, run_s: float) -> bytes:
    """Return what that script writes."""
    return b"".join(b"%s line %d\n" % (name.encode(), i) for i in range(_lines(run_s)))


def _lines(run_s: float) -> int:
    return int(run_s * LINES_PER_S)
