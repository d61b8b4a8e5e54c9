"""The table: one line per cell while it runs, the same as Markdown and JSON afterwards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.kill_matrix.cell import Cell, Wave
from benchmarks.kill_matrix.faults import FAULTS
from benchmarks.kill_matrix.steps import STEPS

_HEAD = ("fault", "step", "failpoint", "end", "starts", "log", "GPU-seconds = node's record", "leftovers", "verdict")
_WIDTHS = (10, 4, 18, 32, 6, 9, 28, 9, 7)


def header() -> str:
    """Return the table's first line."""
    return _line(_HEAD)


def lines(wave: Wave) -> list[str]:
    """Return the printed lines of a wave."""
    found = []
    for cell in wave.cells:
        found.append(_line(_columns(cell)))
        found += [f"      ! {one}" for one in cell.deviations]
    found += [f"      ! {wave.fault.name}: {one}" for one in wave.deviations]
    return found


def summary(waves: Sequence[Wave], seconds: float) -> str:
    """Return the last line."""
    cells = [cell for wave in waves for cell in wave.cells]
    wrong = sum(bool(cell.deviations) for cell in cells)
    others = sum(len(wave.deviations) for wave in waves)
    return f"{len(cells)} cells, {wrong} with deviations, {others} other deviations, {seconds / 60:.1f} minutes"


def exceptions(waves: Sequence[Wave]) -> int:
    """Return how many deviations there are; none is right."""
    return sum(len(wave.deviations) + sum(len(cell.deviations) for cell in wave.cells) for wave in waves)


def write_json(path: Path, waves: Sequence[Wave], seconds: float) -> None:
    """Write everything that was found."""
    value = {
        "seconds": round(seconds, 1),
        "exceptions": exceptions(waves),
        "cells": [cell.as_row() for wave in waves for cell in wave.cells],
        "others": [f"{wave.fault.name}: {one}" for wave in waves for one in wave.deviations],
    }
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_markdown(path: Path, waves: Sequence[Wave], seconds: float) -> None:
    """Write the table for the docs: a summary by fault and step, then every cell."""
    cells = {(cell.step.name, cell.fault.name): cell for wave in waves for cell in wave.cells}
    faults = [name for name in FAULTS if any(fault == name for _, fault in cells)]
    steps = [name for name in STEPS if any(step == name for step, _ in cells)]
    text = [f"{summary(waves, seconds)}.", "", _row(["step", *faults]), _row(["---"] * (len(faults) + 1))]
    text += [_row([f"{step} {STEPS[step].what}", *(_verdict(cells.get((step, f))) for f in faults)]) for step in steps]
    text += ["", _row(_HEAD), _row(["---"] * len(_HEAD))]
    text += [_row(_columns(cell)) for cell in cells.values()]
    notes = [f"- {w.fault.name} {c.step.name}: {one}" for w in waves for c in w.cells for one in c.deviations]
    notes += [f"- {w.fault.name}: {one}" for w in waves for one in w.deviations]
    path.write_text("\n".join([*text, "", *notes]).rstrip() + "\n")


def _columns(cell: Cell) -> list[str]:
    hit = cell.step.point if cell.hit else "NOT HIT"
    verdict = "ok" if not cell.deviations else "WRONG"
    told = (hit, cell.end, cell.starts, cell.log, cell.gpu_seconds, cell.leftovers, verdict)
    return [cell.fault.name, cell.step.name, *told]


def _verdict(cell: Cell | None) -> str:
    return "–" if cell is None else ("ok" if not cell.deviations else "WRONG")


def _line(columns: Sequence[str]) -> str:
    return "  ".join(text.ljust(width) for text, width in zip(columns, _WIDTHS, strict=True)).rstrip()


def _row(columns: Sequence[str]) -> str:
    return f"| {' | '.join(columns)} |"
