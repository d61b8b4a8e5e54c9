"""One cell of the matrix: a job, what is expected of it, and what was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.kill_matrix.client import Submission
from benchmarks.kill_matrix.faults import Fault
from benchmarks.kill_matrix.steps import Step


@dataclass
class Cell:
    """Filled while the matrix runs; a cell without deviations is as it must be."""

    fault: Fault
    step: Step
    job: str
    submission: Submission
    hit: bool = False
    end: str = ""
    starts: str = ""
    log: str = ""
    gpu_seconds: str = ""
    leftovers: str = ""
    deviations: list[str] = field(default_factory=list)

    @property
    def run_s(self) -> float:
        """How long the job runs by itself."""
        return self.step.run_s + (self.fault.lasts_s if self.step.outlasts else 0.0)

    @property
    def lost(self) -> bool:
        """Whether the attempt must be lost with its node and the job requeued."""
        return self.step.name in self.fault.lost

    def expect(self, condition: object, otherwise: str) -> None:
        """Note a deviation unless the condition holds."""
        if not condition:
            self.deviations.append(otherwise)

    def as_row(self) -> dict[str, Any]:
        """Return what is printed and written of it."""
        names = ("hit", "end", "starts", "log", "gpu_seconds", "leftovers", "deviations")
        row: dict[str, Any] = {"fault": self.fault.name, "step": self.step.name, "job": self.job}
        row.update({name: getattr(self, name) for name in names})
        return {**row, "repeats": self.submission.repeats, "ok": not self.deviations}


@dataclass
class Wave:
    """Jobs parked together under one fault; `deviations` are what belongs to no single job."""

    fault: Fault
    cells: list[Cell] = field(default_factory=list)
    deviations: list[str] = field(default_factory=list)
    heartbeats: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0
