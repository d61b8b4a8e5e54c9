"""Where a workload goes: one scoring per policy, lowest score wins, ties fall to the first node."""

from collections.abc import Mapping

import numpy as np

from apps.scheduling.engine.arrays import Arrays, Bools, Floats, Ints, Kind, Spot
from apps.scheduling.engine.fragmentation import Target, scarcity
from apps.scheduling.engine.types import WHOLE

CPU_UNIT, GPU_UNIT = 128_000, 8_000
"""What a large node has: the units in which best fit adds CPU (milli) and GPU (milli)."""
TIE_WEIGHT = 50.0
SCARCITY_WEIGHT = 150.0
"""What a GPU of a model that is asked for by name costs a workload that would take any, in milli-GPU of waste."""
NO_ROOM = np.inf


class Placement:
    """A policy: scores of the rows for a kind `[R]` and, for shares of a GPU, the best device column `[R]`."""

    def __init__(self, arrays: Arrays, demand: Mapping[Kind, float], seed: int) -> None:
        self.arrays = arrays
        self._tables: dict[Kind, _Table] = {}

    def score(self, kind: Kind, rows: Ints, usable: Bools) -> tuple[Floats, Ints]:
        """Returns scores and device columns of rows that have room."""
        raise NotImplementedError

    def choose(self, kind: Kind) -> Spot | None:
        """Returns the best spot for a member now, or None."""
        table = self._tables.get(kind)
        if table is None:
            table = self._tables[kind] = _Table(len(self.arrays.cpu))
        if not table.is_current(self.arrays):
            self._rescore(kind, table, table.dirty(self.arrays))
        elif table.is_full:
            return None
        spot = self._pick(kind, table)
        table.is_full = spot is None
        return spot

    def _pick(self, kind: Kind, table: "_Table") -> Spot | None:
        row = int(table.score.argmin()) if table.score.size else -1
        if row < 0 or table.score[row] == NO_ROOM:
            return None
        return self._spot(kind, row, int(table.column[row]))

    def _spot(self, kind: Kind, row: int, column: int) -> Spot:
        if kind.gpus == 1 and kind.share < WHOLE:
            return Spot(row, (column,))
        free = np.flatnonzero(self.arrays.usable(kind, slice(row, row + 1))[0])
        return Spot(row, tuple(int(c) for c in free[: kind.gpus]))

    def _rescore(self, kind: Kind, table: "_Table", dirty: Ints) -> None:
        usable = self.arrays.usable(kind, dirty)
        good = self.arrays.feasible(kind, dirty, usable)
        table.score[dirty] = NO_ROOM
        rows = dirty[good]
        if rows.size:
            table.score[rows], table.column[rows] = self.score(kind, rows, usable[good])


class _Table:
    """The scores of one kind on all nodes, and how far the log of changes is worked in."""

    def __init__(self, size: int) -> None:
        self.score: Floats = np.full(size, NO_ROOM)
        self.column: Ints = np.zeros(size, dtype=np.int64)
        self.is_full = False
        self._seen = -1

    def is_current(self, arrays: Arrays) -> bool:
        """Says whether nothing changed since the last look."""
        return self._seen == len(arrays.changes)

    def dirty(self, arrays: Arrays) -> Ints:
        """Returns the rows that changed since the last look; all at the first."""
        seen, self._seen = self._seen, len(arrays.changes)
        if seen < 0:
            return np.arange(self.score.size)
        return np.array(sorted(set(arrays.changes[seen:])), dtype=np.int64)


def _tightest(arrays: Arrays, rows: Ints, usable: Bools) -> Ints:
    column: Ints = np.where(usable, arrays.share[rows], 2 * WHOLE).argmin(axis=1)
    return column


class BestFit(Placement):
    """The node that is left with the least: ½ free CPU / 128 cores + ½ free GPU / 8 GPUs; the fullest GPU there."""

    def score(self, kind: Kind, rows: Ints, usable: Bools) -> tuple[Floats, Ints]:
        """Returns what is left."""
        return left_over(self.arrays, kind, rows), _tightest(self.arrays, rows, usable)


class Spread(BestFit):
    """The node that is left with the most, for short latency rather than room."""

    def score(self, kind: Kind, rows: Ints, usable: Bools) -> tuple[Floats, Ints]:
        """Returns the negative of what is left; the idlest GPU."""
        column: Ints = np.where(usable, self.arrays.share[rows], -1).argmax(axis=1)
        return -left_over(self.arrays, kind, rows), column


class DotProduct(BestFit):
    """The node whose free room points where the request does: −Σ request · free over CPU and GPU."""

    def score(self, kind: Kind, rows: Ints, usable: Bools) -> tuple[Floats, Ints]:
        """Returns the negative product."""
        cpu = kind.cpu_milli / CPU_UNIT * (self.arrays.cpu[rows] / CPU_UNIT)
        gpu = kind.gpus * kind.share / GPU_UNIT * (self.arrays.share[rows].sum(axis=1) / GPU_UNIT)
        return -(cpu + gpu), _tightest(self.arrays, rows, usable)


class RandomFit(Placement):
    """Any node with room and any GPU there, by lot."""

    def __init__(self, arrays: Arrays, demand: Mapping[Kind, float], seed: int) -> None:
        super().__init__(arrays, demand, seed)
        self._lots = np.random.default_rng(seed)

    def score(self, kind: Kind, rows: Ints, usable: Bools) -> tuple[Floats, Ints]:
        """Returns equal scores."""
        return np.zeros(rows.size), np.zeros(rows.size, dtype=np.int64)

    def _pick(self, kind: Kind, table: _Table) -> Spot | None:
        rows = np.flatnonzero(table.score < NO_ROOM)
        if not rows.size:
            return None
        row = int(self._lots.choice(rows))
        columns = np.flatnonzero(self.arrays.usable(kind, slice(row, row + 1))[0])
        return self._spot(kind, row, int(self._lots.choice(columns)) if columns.size else 0)


class Fragmentation(Placement):
    """Least growth of the expected waste, ΔF, plus a little best fit, plus what a scarce model costs."""

    scarcity_weight = SCARCITY_WEIGHT

    def __init__(self, arrays: Arrays, demand: Mapping[Kind, float], seed: int) -> None:
        super().__init__(arrays, demand, seed)
        self.target = self.make_target(demand)
        self._model = arrays.model.max(axis=1)
        self._scarce = scarcity(demand, arrays)

    def make_target(self, demand: Mapping[Kind, float]) -> Target:
        """Returns the target that placement keeps room for."""
        return Target.of(demand, self.arrays)

    def score(self, kind: Kind, rows: Ints, usable: Bools) -> tuple[Floats, Ints]:
        """Returns ΔF + λ · best fit with the device column where it is least."""
        growth, column = self._growth(kind, rows, usable)
        score = growth + TIE_WEIGHT * left_over(self.arrays, kind, rows)
        if not kind.models:
            score += self.scarcity_weight * self._scarce[self._model[rows]] * (kind.gpus * kind.share / WHOLE)
        return score, column

    def _growth(self, kind: Kind, rows: Ints, usable: Bools) -> tuple[Floats, Ints]:
        arrays, share, model = self.arrays, self.arrays.share[rows], self._model[rows]
        cpu = arrays.cpu[rows]
        before = self.target.waste(cpu, share, model)
        if kind.gpus == 1 and kind.share < WHOLE:
            option, column = np.nonzero(usable)
            after_share = share[option].copy()
            after_share[np.arange(option.size), column] -= kind.share
            each = self.target.waste(cpu[option] - kind.cpu_milli, after_share, model[option]) - before[option]
            table = np.full(usable.shape, NO_ROOM)
            table[option, column] = each
            best: Ints = table.argmin(axis=1)
            return table[np.arange(rows.size), best], best
        taken = usable & (usable.cumsum(axis=1) <= kind.gpus)
        after = self.target.waste(cpu - kind.cpu_milli, share - kind.share * taken, model)
        return after - before, np.zeros(rows.size, dtype=np.int64)


def left_over(arrays: Arrays, kind: Kind, rows: Ints) -> Floats:
    """Returns what a member leaves on the rows: ½ CPU / 128 cores + ½ GPU / 8."""
    gpu = arrays.share[rows].sum(axis=1) - kind.gpus * kind.share
    left: Floats = 0.5 * (arrays.cpu[rows] - kind.cpu_milli) / CPU_UNIT + 0.5 * gpu / GPU_UNIT
    return left


PLACEMENTS: dict[str, type[Placement]] = {
    "random": RandomFit, "best_fit": BestFit, "spread": Spread, "dot_product": DotProduct,
    "fragmentation": Fragmentation,
}  # fmt: skip
