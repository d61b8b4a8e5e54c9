"""Prometheus text of GPU exporters, and the counter lists of dcgm-exporter."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

_SERIES = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]{0,120})(?:\{(.*)\})?\s+(\S{1,40})(?:\s+-?[0-9]{1,16})?\s*", re.ASCII)
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Series:
    """One sample line; a value that is no finite number isn't a sample."""

    name: str
    labels: Mapping[str, str]
    value: float


def read_exposition(output: str) -> tuple[Series, ...]:
    """Samples of an exposition; what a GPU doesn't report is absent, never 0, and torn lines are left out."""
    found = []
    for line in output.splitlines():
        match = None if line.startswith("#") else _SERIES.fullmatch(line.strip())
        value = _finite(match[3]) if match else None
        if match and value is not None:
            labels = dict(_LABEL.findall(match[2] or ""))
            found.append(Series(match[1], labels, value))
    return tuple(found)


def read_counters(output: str) -> dict[str, str]:
    """{metric name: Prometheus type} of a dcgm-exporter counter list."""
    rows = (
        line for line in output.replace("\0", "").splitlines() if line.strip() and not line.lstrip().startswith("#")
    )
    counters = {}
    for line in rows:
        try:
            cells = [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]
        except csv.Error:
            continue
        if len(cells) >= 2 and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{2,80}", cells[0]):
            counters[cells[0]] = cells[1]
    return counters


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
