"""From submit to the first log byte in a client, against `ssh node podman run` of the same command on the same node.

Both sides have the image on the node and their connections open: ours the client's HTTP connection and WebSocket and
the portal's link to the node, theirs an OpenSSH connection (ControlMaster). Both containers get the same restrictions:
no network, no new privileges, dropped capabilities, limits of CPU, memory and processes, and the same GPUs by CDI.
Samples alternate, the first of each side is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import threading
import time
from typing import Any

from benchmarks.common import Room, Ssh, median, percentile, report, spread, until
from cli.follow import LogFollower
from cli.live import Live
from cli.logs import LogReader
from cli.watch import Watch

GOAL, GATE = 1.25, 1.6
COMMAND = ("sh", "-c", "echo first; sleep 0.4")
FIRST_BYTE_WITHIN_S = 60.0


class Quiet(Watch):
    """The progress view without its lines: they are not what is measured."""

    def show(self, state: str, lines: Any = ()) -> None:
        """Shows nothing."""


class Ours:
    """One job a sample, followed as `berth job submit --follow` does it, by a client that is connected already."""

    def __init__(self, room: Room, live: Live, client: Any, gpus: int) -> None:
        self._room, self._live, self._client, self._gpus = room, live, client, gpus
        self.phases: list[dict[str, float]] = []

    def sample(self) -> float:
        """Return the seconds to the first byte."""
        spec = {"name": "latency", "image": self._room.image, "command": list(COMMAND), "gpus": self._gpus, "cpus": 1.0,
                "memory_mib": 512, "shm_mib": 64}  # fmt: skip
        marks: dict[str, float] = {}
        begun = threading.Event()

        def first(piece: bytes) -> None:
            if not begun.is_set():
                marks["client"] = time.time()
                begun.set()
                self._look_at_node(marks, str(follower_attempt()))

        def follower_attempt() -> str:
            job = self._client.get(f"/jobs/{created['id']}")
            return str(job["attempts"][-1]["id"])

        marks["submit"] = time.time()
        created = self._client.post("/jobs", spec)
        marks["answered"] = time.time()
        reader = LogReader(self._client, created["id"], first)
        job = LogFollower(self._client, created, reader, self._live, Quiet("latency")).run()
        if job["result"] != "succeeded" or not begun.is_set():
            raise RuntimeError(f"a sample's job ended so: {job['end']}")
        self._room.settle(created["id"])
        self.phases.append(self._phases(created["id"], marks))
        return marks["client"] - marks["submit"]

    def _look_at_node(self, marks: dict[str, float], attempt: str) -> None:
        folder = self._room.attempt_folder(attempt)
        paths = {
            "accepted": folder / "spec.json",
            "podman": folder / "start.err",
            "created": folder / "id",
            "process": folder / "pid",
            "spooled": folder / "log" / f"seg-{0:016x}",
            "stored": self._room.blob(attempt),
        }
        for name, path in paths.items():
            if path.exists():
                marks[name] = path.stat().st_mtime

    def _phases(self, job: str, marks: dict[str, float]) -> dict[str, float]:
        import datetime as dt

        events = self._client.get(f"/jobs/{job}/events")["results"]
        for event in events:
            marks.setdefault(event["name"], dt.datetime.fromisoformat(event["at"]).timestamp())
        return {name: at - marks["submit"] for name, at in marks.items()}


class Theirs:
    """`ssh node podman run --rm` over the open connection."""

    def __init__(self, room: Room, ssh: Ssh, gpus: int) -> None:
        options = ["--rm", "--pull=never", "--network=none", "--security-opt=no-new-privileges", "--pids-limit=4096",
                   "--cap-drop=SETFCAP", "--cap-drop=SETPCAP", "--cpus=1", "--memory=512m", "--memory-swap=512m",
                   "--shm-size=64m"]  # fmt: skip
        options += [f"--device=nvidia.com/gpu={gpu.uuid}" for gpu in room.node.gpus[:gpus]]
        words = ["podman", "run", *options, room.image, *COMMAND[:2], f"'{COMMAND[2]}'"]
        self._argv = ssh.argv(" ".join(words))

    def sample(self) -> float:
        """Return the seconds to the first byte."""
        began = time.perf_counter()
        with subprocess.Popen(self._argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            first = process.stdout.read(1)
            took = time.perf_counter() - began
            process.communicate(timeout=FIRST_BYTE_WITHIN_S)
        if not first or process.returncode != 0:
            raise RuntimeError(f"the reference ended with {process.returncode}")
        return took


def table(phases: list[dict[str, float]]) -> dict[str, float]:
    """Print when each mark was passed, median over the samples, in the order of time; return it in seconds."""
    names = {name for phase in phases for name in phase if name != "submit"}
    at = {name: statistics.median(p[name] for p in phases if name in p) for name in names}
    print(f"{'mark':<22}{'at ms':>8}{'step ms':>9}")
    before = 0.0
    for name, when in sorted(at.items(), key=lambda item: item[1]):
        print(f"{name:<22}{when * 1000:>8.0f}{(when - before) * 1000:>9.0f}")
        before = when
    return {name: round(when, 4) for name, when in sorted(at.items(), key=lambda item: item[1])}


def measure(room: Room, samples: int, gpus: int) -> None:
    """Take the samples and print the result."""
    client = room.client()
    ours: list[float] = []
    theirs: list[float] = []
    with Ssh(room.node, room.folder) as ssh, Live(client) as live:
        until(lambda: live._connection is not None, "the WebSocket is open")
        mine, reference = Ours(room, live, client, gpus), Theirs(room, ssh, gpus)
        for number in range(samples + 1):
            took = mine.sample(), reference.sample()
            if number:
                ours.append(took[0])
                theirs.append(took[1])
    phases = table(mine.phases[1:])
    paired = [a / b for a, b in zip(ours, theirs, strict=True)]
    report(
        benchmark="start_latency", ours=median(ours), reference=median(theirs),
        reference_name="ssh node podman run --rm, multiplexed OpenSSH, same restrictions", unit="s",
        ratio=round(percentile(ours, 50) / percentile(theirs, 50), 3), paired_ratio=round(percentile(paired, 50), 3),
        better="lower", goal=GOAL, gate=GATE, samples=samples, gpus=gpus,
        spread={"ours": spread(ours), "reference": spread(theirs)}, phases=phases,
    )  # fmt: skip


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=30)
    parser.add_argument("--gpus", type=int, default=0, help="GPUs by CDI for both sides")
    options = parser.parse_args()
    with Room() as room:
        measure(room, options.samples, options.gpus)


if __name__ == "__main__":
    main()
