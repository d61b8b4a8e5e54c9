"""The cluster's free room in arrays: N nodes, G device columns; `take` and `give` are exact inverses."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apps.scheduling.engine.types import WHOLE, NodeView, WorkloadView

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


class Kind(NamedTuple):
    """What a member asks for; workloads that ask for the same share their scores. `models` empty: any."""

    gpus: int
    share: int
    gpu_memory_mib: int
    models: tuple[str, ...]
    cpu_milli: int
    memory_mib: int

    @classmethod
    def of(cls, workload: WorkloadView) -> "Kind":
        """Returns the kind of a workload's member."""
        share = workload.gpu_share if workload.gpus else 0
        models = tuple(sorted(workload.models)) if workload.gpu_models else workload.models
        cpu, memory = workload.cpu_milli, workload.memory_mib
        return cls(workload.gpus, share, workload.gpu_memory_mib, models, cpu, memory)


@dataclasses.dataclass(frozen=True, slots=True)
class Spot:
    """A node row and the device columns to take there."""

    row: int
    columns: tuple[int, ...]


class Arrays:
    """Free CPU and memory `[N]`, free share and memory per GPU `[N, G]`; a log of changed rows for what is derived."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self.nodes = nodes
        width = max((len(n.devices) for n in nodes), default=0) or 1
        shape = (len(nodes), width)
        self.cpu: Ints = np.array([n.cpu_milli_free for n in nodes], dtype=np.int64)
        self.memory: Ints = np.array([n.memory_mib_free for n in nodes], dtype=np.int64)
        self.share: Ints = np.zeros(shape, dtype=np.int64)
        self.gpu_memory: Ints = np.zeros(shape, dtype=np.int64)
        self.model: Ints = np.full(shape, -1, dtype=np.int64)
        self.models: list[str] = sorted({d.model for n in nodes for d in n.devices})
        codes = {model: code for code, model in enumerate(self.models)}
        for row, node in enumerate(nodes):
            for column, device in enumerate(node.devices):
                if device.healthy:
                    self.share[row, column] = device.share_free
                    self.gpu_memory[row, column] = _memory_free(device)
                    self.model[row, column] = codes[device.model]
        self.total_memory: Ints = np.zeros(shape, dtype=np.int64)
        for row, node in enumerate(nodes):
            self.total_memory[row, : len(node.devices)] = [d.memory_mib for d in node.devices]
        self.total_cpu: Ints = np.array([n.cpu_milli for n in nodes], dtype=np.int64)
        self.total_node_memory: Ints = np.array([n.memory_mib for n in nodes], dtype=np.int64)
        self.claimed: Bools = np.zeros(shape, dtype=np.bool_)
        self.claimed_rows: Bools = np.zeros(len(nodes), dtype=np.bool_)
        self._claimed_kinds: set[Kind] = set()
        self.moves = 0
        self.changes: list[int] = []
        self._suits: dict[tuple[str, ...], Bools] = {}

    def suits(self, models: tuple[str, ...]) -> Bools:
        """Returns which model codes will do, `[M + 1]`; the last stands for "no device"."""
        if models not in self._suits:
            good = [not models or model in models for model in self.models]
            self._suits[models] = np.array([*good, False], dtype=np.bool_)
        return self._suits[models]

    def usable(self, kind: Kind, rows: Any) -> Bools:
        """Returns the devices of the rows that have room for one GPU of the kind, `[R, G]`."""
        fit = (self.share[rows] >= kind.share) & (self.gpu_memory[rows] >= kind.gpu_memory_mib)
        good: Bools = fit & self.suits(kind.models)[self.model[rows]]
        return good

    def feasible(self, kind: Kind, rows: Any, usable: Bools) -> Bools:
        """Returns which of the rows have room for a member of the kind, `[R]`."""
        room: Bools = (self.cpu[rows] >= kind.cpu_milli) & (self.memory[rows] >= kind.memory_mib)
        room &= usable.sum(axis=1) >= kind.gpus
        if kind.gpus:
            room &= ~(self.claimed[rows] & self.suitable(kind, rows)).any(axis=1)
        else:
            room &= ~self.claimed_rows[rows]
        return room

    def suitable(self, kind: Kind, rows: Any) -> Bools:
        """Returns the healthy devices of the rows that suit the kind, busy or not, `[R, G]`."""
        large: Bools = self.total_memory[rows] >= kind.gpu_memory_mib
        large &= self.suits(kind.models)[self.model[rows]]
        return large

    def suits_empty(self, kind: Kind) -> Bools:
        """Returns which nodes could run a member if they were idle, `[N]`."""
        room: Bools = (self.total_cpu >= kind.cpu_milli) & (self.total_node_memory >= kind.memory_mib)
        room &= self.suitable(kind, slice(None)).sum(axis=1) >= kind.gpus
        return room

    def claim(self, kind: Kind) -> None:
        """Keeps later workloads off the devices (or, for work without GPUs, the nodes) that the kind waits for."""
        if kind in self._claimed_kinds:
            return
        self._claimed_kinds.add(kind)
        good = self.suits_empty(kind)
        if kind.gpus:
            fresh = self.suitable(kind, slice(None)) & good[:, None] & ~self.claimed
            self.claimed |= fresh
            rows = np.flatnonzero(fresh.any(axis=1))
        else:
            rows = np.flatnonzero(good & ~self.claimed_rows)
            self.claimed_rows[rows] = True
        self.changes.extend(rows.tolist())

    def take(self, spot: Spot, kind: Kind) -> None:
        """Books a member."""
        self._move(spot, kind, 1)

    def give(self, spot: Spot, kind: Kind) -> None:
        """Takes a booking back."""
        self._move(spot, kind, -1)

    def _move(self, spot: Spot, kind: Kind, sign: int) -> None:
        row = spot.row
        self.cpu[row] -= sign * kind.cpu_milli
        self.memory[row] -= sign * kind.memory_mib
        for column in spot.columns:
            self.share[row, column] -= sign * kind.share
            if kind.share < WHOLE:  # a whole GPU's memory goes with its share
                self.gpu_memory[row, column] -= sign * kind.gpu_memory_mib
        self.moves += 1
        self.changes.append(row)


def _memory_free(device: Any) -> int:
    if device.memory_mib_free is not None:
        return int(device.memory_mib_free)
    return int(device.memory_mib) if device.share_free == WHOLE else 0
