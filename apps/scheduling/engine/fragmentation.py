"""How much free GPU a node would waste on the workloads one expects (after FGD, USENIX ATC'23, section 4)."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from apps.scheduling.engine.arrays import Arrays, Floats, Ints, Kind

HORIZON = 10.0
"""How many further workloads look at a free GPU before it counts as lost: a few per node, at any size."""
LINEAR = 0.5
"""Weight of the next workload alone against the horizon's; both together keep scarce and common room apart."""


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """The expected demand: T kinds with weights, their GPU shares in L levels, suitable models `[M + 1, T]`."""

    cpu: Ints
    gpus: Ints
    level: Ints
    levels: Ints
    suits: Floats
    spread: Floats
    horizon: float
    linear: float

    @classmethod
    def of(
        cls,
        demand: Mapping[Kind, float],
        arrays: Arrays,
        *,
        covered: float = 1.0,
        horizon: float = HORIZON,
        linear: float = LINEAR,
    ) -> "Target":
        """Returns the most frequent kinds that cover that part of the demand; memory is not told apart.

        With `linear` 1 and `covered` 0.95 this is FGD's as published: to a kind without GPUs all free GPU is waste.
        """
        kept = _most_frequent(demand, covered)
        levels = sorted({key[2] for key, _ in kept})
        total = sum(weight for _, weight in kept)
        spread = np.zeros((len(kept), len(levels)))
        for place, ((_, gpus, share, _), weight) in enumerate(kept):
            if gpus:
                spread[place, levels.index(share)] = weight / total
        return cls(
            cpu=np.array([key[0] for key, _ in kept], dtype=np.int64),
            gpus=np.array([key[1] for key, _ in kept], dtype=np.int64),
            level=np.array([levels.index(key[2]) for key, _ in kept], dtype=np.int64),
            levels=np.array(levels, dtype=np.int64),
            suits=np.array([arrays.suits(key[3]) for key, _ in kept], dtype=np.float64)
            .reshape(len(kept), len(arrays.models) + 1)
            .T,
            spread=spread,
            horizon=horizon,
            linear=linear,
        )

    def waste(self, cpu: Ints, share: Ints, model: Ints) -> Floats:
        """Returns the share `[R]` expected to stay unused: cpu `[R]`, share `[R, G]`, model code `[R]`.

        A GPU is usable for the next workload with chance q, the weight of the kinds that fit it; for one of the next m
        with 1 − (1 − q)^m.
        """
        enough = share[:, None, :] >= self.levels[:, None]
        fits = (enough.sum(axis=2)[:, self.level] >= self.gpus) & (cpu[:, None] >= self.cpu)
        chance = np.einsum("rl,rlg->rg", (fits * self.suits[model]) @ self.spread, enough)
        if self.linear < 1:
            soon = 1 - (1 - np.minimum(chance, 1)) ** self.horizon
            chance = self.linear * chance + (1 - self.linear) * soon
        wasted: Floats = (share * (1 - chance)).sum(axis=1)
        return wasted


def scarcity(demand: Mapping[Kind, float], arrays: Arrays) -> Floats:
    """Returns per model code `[M + 1]` how much of its supply is asked for by name, at most 1, in a full cluster."""
    supply = np.zeros(len(arrays.models) + 1)
    np.add.at(supply, arrays.model, 1.0)
    supply[-1] = 0.0
    asked = np.zeros_like(supply)
    total = 0.0
    for kind, weight in sorted(demand.items(), key=lambda item: repr(item[0])):
        gpus = weight * kind.gpus * kind.share
        total += gpus
        good = supply * arrays.suits(kind.models)
        if kind.models and good.sum():
            asked += gpus * good / good.sum()
    if not total:
        return asked
    by_name = asked / total * supply.sum()
    part: Floats = np.minimum(1.0, by_name / np.maximum(supply, 1.0))
    return part


def _most_frequent(
    demand: Mapping[Kind, float], covered: float
) -> list[tuple[tuple[int, int, int, tuple[str, ...]], float]]:
    merged: dict[tuple[int, int, int, tuple[str, ...]], float] = {}
    for kind, weight in demand.items():
        key = (kind.cpu_milli, kind.gpus, kind.share, kind.models)
        merged[key] = merged.get(key, 0.0) + weight
    whole, reached, kept = sum(merged.values()), 0.0, []
    for key, weight in sorted(merged.items(), key=lambda item: (-item[1], item[0])):
        if reached >= covered * whole:
            break
        kept.append((key, weight))
        reached += weight
    return kept
