"""GPU share allocated when a shuffled pod list has arrived at 1.3 of capacity (FGD, ATC'23), per policy and seed.

`--nodes` and `--pods` take any file in the columns of the openb lists; nothing departs, a pod that fits nowhere is
dropped. Prints each policy beside the published row, per seed, with paired differences from our own FGD run.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import statistics
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from apps.scheduling.engine.arrays import Arrays, Bools, Floats, Ints, Kind
from apps.scheduling.engine.fragmentation import Target
from apps.scheduling.engine.placement import PLACEMENTS, Fragmentation, left_over
from apps.scheduling.engine.types import WHOLE, DeviceView, NodeView
from benchmarks.common import report

ARRIVED = 1.3
MARKS = (0.95, 1.0, 1.3)
TRACES = Path(os.environ.get("BERTH_TRACES", "../shared/traces")) / "openb"
PUBLISHED = {
    "default": {"random": 87.47, "dot_product": 90.85, "best_fit": 93.08, "fgd": 95.39},
    "gpuspec33": {"random": 86.46, "dot_product": 89.14, "best_fit": 93.09, "fgd": 94.55},
    "multigpu50": {"random": 90.27, "dot_product": 94.85, "best_fit": 95.74, "fgd": 97.18},
    "cpu050": {"random": 91.24, "dot_product": 93.27, "best_fit": 93.79, "fgd": 95.21},
    "gpushare40": {"random": 86.00, "dot_product": 89.56, "best_fit": 91.69, "fgd": 94.15},
}
T95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}


class Fgd(Fragmentation):
    """FGD as published: whole points of 100 · sigmoid(−ΔF / 1000), and best fit among equals."""

    def make_target(self, demand: Mapping[Kind, float]) -> Target:
        """Return the kinds that cover 95 %, each counted for the next pod alone."""
        return Target.of(demand, self.arrays, covered=0.95, linear=1.0)

    def score(self, kind: Kind, rows: Ints, usable: Bools) -> tuple[Floats, Ints]:
        """Return the negative points, less than a point of best fit added."""
        growth, column = self._growth(kind, rows, usable)
        points = np.floor(100 / (1 + np.exp(growth / WHOLE)))
        return left_over(self.arrays, kind, rows) / 100 - points, column


POLICIES = {**PLACEMENTS, "fgd": Fgd}


def nodes_read(path: Path) -> list[NodeView]:
    """Return the nodes of a list that have GPUs; GPU memory is not in it and does not bind."""
    found = []
    for row in csv.DictReader(path.open()):
        cpu, memory, gpus = int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"])
        devices = tuple(DeviceView(f"{row['sn']}/{i}", row["model"], 0, WHOLE) for i in range(gpus))
        if gpus:
            found.append(NodeView(row["sn"], row["sn"], cpu, cpu, memory, memory, devices))
    return found


def pods_read(path: Path) -> list[Kind]:
    """Return what each pod of a list asks for."""
    found = []
    for row in csv.DictReader(path.open()):
        gpus = int(row["num_gpu"])
        models = tuple(sorted(filter(None, (row.get("gpu_spec") or "").split("|"))))
        share = int(row["gpu_milli"] or 0) if gpus else 0
        found.append(Kind(gpus, share, 0, models, int(row["cpu_milli"]), int(row["memory_mib"])))
    return found


def arrivals(pods: list[Kind], capacity: int, seed: int) -> list[Kind]:
    """Return the shuffled list with pods drawn from it appended until demand is 1.3 of capacity."""
    lots = random.Random(seed)  # noqa: S311 - a repeatable draw
    order = list(pods)
    lots.shuffle(order)
    demand = sum(p.gpus * p.share for p in order)
    while demand < ARRIVED * capacity:
        order.append(lots.choice(pods))
        demand += order[-1].gpus * order[-1].share
    return order


def play(nodes: list[NodeView], order: list[Kind], demand: Counter[Kind], policy: str, seed: int) -> list[float]:
    """Return the per cent of GPU share allocated when arrived demand passes each mark."""
    arrays = Arrays(nodes)
    placement = POLICIES[policy](arrays, demand, seed)
    capacity = int(arrays.share.sum())
    arrived = allocated = 0
    marks: list[float] = []
    for kind in order:
        spot = placement.choose(kind)
        arrived += kind.gpus * kind.share
        if spot is not None:
            arrays.take(spot, kind)
            allocated += kind.gpus * kind.share
        while len(marks) < len(MARKS) and arrived >= MARKS[len(marks)] * capacity:
            marks.append(100 * allocated / capacity)
    return marks


def interval(values: list[float]) -> tuple[float, float]:
    """Return mean and half width of the 95 % interval (Student's t)."""
    if len(values) < 2:
        return values[0], float("nan")
    width = T95.get(len(values), 1.96) * statistics.stdev(values) / len(values) ** 0.5
    return statistics.mean(values), width


def main() -> None:
    """Play every policy on every seed and report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", type=Path, default=TRACES / "openb_node_list_gpu_node.csv")
    options.add_argument("--pods", type=Path, default=TRACES / "openb_pod_list_default.csv")
    options.add_argument("--seeds", default="42-51")
    options.add_argument("--policies", default="random,best_fit,fgd,fragmentation")
    chosen = options.parse_args()
    if not (chosen.nodes.exists() and chosen.pods.exists()):
        print(f"skipped: no such trace: {chosen.nodes} or {chosen.pods}; set BERTH_TRACES")
        sys.exit(0)
    first, _, last = chosen.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    nodes, pods = nodes_read(chosen.nodes), pods_read(chosen.pods)
    demand = Counter(pods)
    capacity = WHOLE * sum(len(n.devices) for n in nodes)
    table: dict[str, list[list[float]]] = {}
    for policy in chosen.policies.split(","):
        for seed in seeds:
            marks = play(nodes, arrivals(pods, capacity, seed), demand, policy, seed)
            table.setdefault(policy, []).append(marks)
            print(policy, seed, [round(m, 2) for m in marks], flush=True)
    _report(chosen.pods.stem.rpartition("_")[2], table, len(seeds))


def _report(name: str, table: dict[str, list[list[float]]], samples: int) -> None:
    published = PUBLISHED.get(name, {})
    for policy, rows in table.items():
        for place, mark in enumerate(MARKS):
            mean, width = interval([row[place] for row in rows])
            known = f"  published {published[policy]}" if mark == ARRIVED and policy in published else ""
            print(f"{policy:14} at {mark:.0%}: {mean:.2f} ± {width:.2f}{known}")
    ours, rival = table.get("fragmentation"), table.get("fgd")
    if ours is None or rival is None:
        return
    mean, _ = interval([row[-1] for row in ours])
    gain, gain_width = interval([a[-1] - b[-1] for a, b in zip(ours, rival, strict=True)])
    reference = published.get("fgd", interval([row[-1] for row in rival])[0])
    report(
        benchmark=f"placement_openb/{name}", ours=round(mean, 3), reference=reference,
        reference_name="FGD, published" if "fgd" in published else "FGD, this simulator",
        ratio=round(mean / reference, 5), unit="% of GPU share allocated at 130 % arrived", samples=samples,
        spread=[round(min(r[-1] for r in ours), 3), round(max(r[-1] for r in ours), 3)],
        paired_difference=round(gain, 3), paired_interval=round(gain_width, 3),
    )  # fmt: skip


if __name__ == "__main__":
    main()
