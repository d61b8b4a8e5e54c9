"""Why a kind of workload fits nowhere, ever or now; each refusal is a Reason with its numbers."""

from collections.abc import Mapping
from typing import Any

from apps.scheduling.engine.arrays import Arrays, Kind
from apps.scheduling.engine.types import Reason


class Refusals:
    """Answers per kind, kept as long as nothing changes that they depend on."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._never: dict[Kind, Reason | None] = {}
        self._busy: dict[Kind, tuple[int, Reason, bool]] = {}

    def never_fits(self, kind: Kind) -> Reason | None:
        """Returns why no node in service could ever run the kind, or None."""
        if kind not in self._never:
            self._never[kind] = self._why_never(kind)
        return self._never[kind]

    def waits(self, kind: Kind, ahead: int) -> Reason:
        """Returns what a kind that would fit an idle node waits for, with the number of those it waits behind."""
        known = self._busy.get(kind)
        if known is None or known[0] != self._arrays.moves:
            known = (self._arrays.moves, *self._why_busy(kind))
            self._busy[kind] = known
        _, reason, is_free = known
        return Reason("behind_others", {"ahead": ahead}) if is_free else _with(reason, ahead)

    def _why_never(self, kind: Kind) -> Reason | None:
        arrays = self._arrays
        if not arrays.nodes:
            return Reason("no_nodes")
        if arrays.suits_empty(kind).any():
            return None
        return Reason(
            "never_fits",
            {
                "gpus_asked": kind.gpus,
                "gpus_most_on_a_node": int(arrays.suitable(kind, slice(None)).sum(axis=1).max()),
                "gpu_model": "|".join(kind.models),
                "gpu_memory_mib": kind.gpu_memory_mib,
                "cpu_milli_asked": kind.cpu_milli,
                "cpu_milli_most": int(arrays.total_cpu.max()),
                "memory_mib_asked": kind.memory_mib,
                "memory_mib_most": int(arrays.total_node_memory.max()),
            },
        )

    def _why_busy(self, kind: Kind) -> tuple[Reason, bool]:
        arrays = self._arrays
        free = arrays.usable(kind, slice(None)).sum(axis=1)
        room = (arrays.cpu >= kind.cpu_milli) & (arrays.memory >= kind.memory_mib)
        is_free = bool((room & (free >= kind.gpus)).any())
        possible = free[arrays.suits_empty(kind)]
        most = int(possible.max())
        if kind.gpus and most < kind.gpus:
            numbers = {"gpus_asked": kind.gpus, "gpus_free_most_on_a_node": most, "gpus_free": int(possible.sum())}
            return Reason("gpus_busy", numbers), is_free
        numbers = {"cpu_milli_asked": kind.cpu_milli, "memory_mib_asked": kind.memory_mib}
        return Reason("room_busy", numbers), is_free


def _with(reason: Reason, ahead: int) -> Reason:
    numbers: Mapping[str, Any] = {**reason.numbers, "ahead": ahead}
    return Reason(reason.code, numbers)
