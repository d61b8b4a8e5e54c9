"""Time of one `schedule` call on a snapshot: 8-GPU nodes, nine of ten GPUs busy, a deep queue of mixed workloads.

What the database costs is not in it. Prints p50 and p99 over the cycles beside Slurm's mean main cycle.
"""

from __future__ import annotations

import argparse
import random
import time

from apps.scheduling.engine import ClusterSnapshot, DeviceView, NodeView, Policy, WorkloadView, schedule
from apps.scheduling.engine.types import WHOLE
from benchmarks.common import percentile, report, spread

PER_NODE = 8
SLURM_CYCLE_MS = 225.0
MODELS = ("H100", "A100", "L40S")
ASKED = (1, 1, 1, 1, 2, 4, 8)


def snapshot_make(gpus: int, queued: int, seed: int) -> ClusterSnapshot:
    """Return a cluster with one GPU in ten free and a queue in the order of submission."""
    lots = random.Random(seed)  # noqa: S311 - a repeatable draw
    nodes = []
    for number in range(gpus // PER_NODE):
        model = MODELS[number % len(MODELS)]
        name = f"n{number}"
        devices = tuple(
            DeviceView(f"{name}/{i}", model, 80_000, WHOLE if lots.random() < 0.1 else 0) for i in range(PER_NODE)
        )
        nodes.append(NodeView(name, name, 128_000, 64_000, 1_000_000, 500_000, devices))
    works = []
    for number in range(queued):
        asked = lots.choice(ASKED)
        model = lots.choice(("", *MODELS))
        cpu = lots.choice((1000, 2000, 4000, 8000)) * asked
        works.append(WorkloadView(f"w{number}", f"t{number % 50}", asked, model, 0, cpu, 8000 * asked, float(number)))
    return ClusterSnapshot(tuple(nodes), tuple(works))


def main() -> None:
    """Measure and report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--gpus", type=int, default=10_000)
    options.add_argument("--queued", type=int, default=10_000)
    options.add_argument("--cycles", type=int, default=30)
    chosen = options.parse_args()
    took: list[float] = []
    placed = 0
    for cycle in range(chosen.cycles):
        snapshot = snapshot_make(chosen.gpus, chosen.queued, cycle)
        began = time.perf_counter()
        plan = schedule(snapshot, now=0.0, policy=Policy(), seed=cycle)
        took.append(1000 * (time.perf_counter() - began))
        placed += len(plan.decisions)
    p99 = percentile(took, 99)
    print(f"p50 {percentile(took, 50):.1f} ms, p99 {p99:.1f} ms, {placed / chosen.cycles:.0f} placed in a cycle")
    report(
        benchmark=f"decision_latency/{chosen.gpus}x{chosen.queued}", ours=round(p99, 2), reference=SLURM_CYCLE_MS,
        reference_name="Slurm 22.05: mean main cycle, 512 GPUs and 20,000 queued", ratio=round(p99 / SLURM_CYCLE_MS, 4),
        unit="ms p99", samples=len(took), spread=spread(took),
    )  # fmt: skip


if __name__ == "__main__":
    main()
