"""200 MB of log the whole way, container to file of a client, against `ssh node cat FILE` over an open connection.

Ours: container, agent, SSH, node worker, blob store and index, then HTTP range reads by a client that follows the job
with its WebSocket, as `berth job logs -f` does, into a file. Theirs: OpenSSH (ControlMaster) into a file. Both are
timed from the first to the last byte in the client. The container reads the file that the reference reads, so that
neither side measures a generator. A higher ratio is better: MB/s of ours by MB/s of the reference.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks.common import Room, Ssh, median, percentile, report, spread, until
from benchmarks.start_latency import Quiet
from cli.follow import LogFollower
from cli.live import Live
from cli.logs import LogReader

GOAL = 0.8
MB = 1_000_000
WITHIN_S = 180.0
SOURCE = "/var/lib/bench/source"


class Sink:
    """A file that notes when its first and last byte came and what they were."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.first = self.last = 0.0
        self.length = 0

    def write(self, piece: bytes) -> None:
        """Takes bytes."""
        self.last = time.perf_counter()
        self.first = self.first or self.last
        self._file.write(piece)
        self.length += len(piece)

    def rate(self, size: int) -> float:
        """Return MB/s; raises RuntimeError when bytes are missing."""
        self._file.close()
        if self.length != size:
            raise RuntimeError(f"{self.length} bytes came instead of {size}")
        return size / MB / (self.last - self.first)


def ours(room: Room, client: Any, live: Live, size: int, sha256: str) -> float:
    """Return MB/s of one job's log."""
    spec = {"name": "throughput", "image": room.image, "command": ["cat", "/berth/in/source"], "cpus": 2.0,
            "memory_mib": 512, "files": [{"path": "source", "sha256": sha256}]}  # fmt: skip
    created = client.post("/jobs", spec)
    sink = Sink(room.folder / "ours.log")
    reader = LogReader(client, created["id"], sink.write)
    job = LogFollower(client, created, reader, live, Quiet("throughput")).run()
    if job["result"] != "succeeded":
        raise RuntimeError(f"the job ended so: {job['end']}")
    room.settle(created["id"])
    return sink.rate(size)


def theirs(room: Room, ssh: Ssh, size: int) -> float:
    """Return MB/s of `cat`."""
    sink = Sink(room.folder / "theirs.log")
    with subprocess.Popen(ssh.argv(f"cat {SOURCE}"), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        while piece := process.stdout.read1(1 << 20):  # type: ignore[attr-defined]
            sink.write(piece)
        process.wait(WITHIN_S)
    return sink.rate(size)


def make_source(room: Room, client: Any, size: int) -> str:
    """Put the bytes on the node and into the portal's files; return their SHA-256."""
    text = b"".join(b"epoch 3 step %09d loss 0.125 accuracy 0.875\n" % number for number in range(size // 46))
    data = text[:size].ljust(size, b".")
    path = room.node.disk.disk / SOURCE.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(client.request("POST", "/files", content=data).json()["sha256"])


def measure(room: Room, samples: int, size: int) -> None:
    """Take alternating samples and print the result."""
    client = room.client()
    sha256 = make_source(room, client, size)
    mine: list[float] = []
    reference: list[float] = []
    with Ssh(room.node, room.folder) as ssh, Live(client) as live:
        until(lambda: live._connection is not None, "the WebSocket is open")
        theirs(room, ssh, size)  # the page cache is warm for every counted sample
        for _ in range(samples):
            mine.append(ours(room, client, live, size, sha256))
            reference.append(theirs(room, ssh, size))
            print(f"ours {mine[-1]:.1f} MB/s, reference {reference[-1]:.1f} MB/s", flush=True)
    paired = [a / b for a, b in zip(mine, reference, strict=True)]
    report(
        benchmark="log_throughput", ours=median(mine), reference=median(reference),
        reference_name="ssh node cat FILE, multiplexed OpenSSH", unit="MB/s", bytes=size, better="higher", goal=GOAL,
        ratio=round(percentile(mine, 50) / percentile(reference, 50), 3), paired_ratio=round(percentile(paired, 50), 3),
        samples=samples, spread={"ours": spread(mine), "reference": spread(reference)},
    )  # fmt: skip


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--bytes", type=int, default=200 * MB)
    options = parser.parse_args()
    with Room() as room:
        measure(room, options.samples, options.bytes)


if __name__ == "__main__":
    main()
