"""Where the agent keeps its things."""

from __future__ import annotations

import os
from typing import NamedTuple

DEFAULT_HOME = "/var/lib/berth"
DEFAULT_RUN = "/run/berth"


class Paths(NamedTuple):
    """`home` survives a reboot, `run` does not."""

    home: str
    run: str

    @classmethod
    def of(cls, home: str) -> Paths:
        """The paths of a home; another home than the default keeps its run folder inside."""
        return cls(home, DEFAULT_RUN if home == DEFAULT_HOME else os.path.join(home, "run"))

    @property
    def record(self) -> str:
        return os.path.join(self.home, "record")

    @property
    def attempts(self) -> str:
        return os.path.join(self.home, "record", "attempts")

    @property
    def results(self) -> str:
        return os.path.join(self.home, "record", "results")

    @property
    def files(self) -> str:
        return os.path.join(self.home, "files")

    @property
    def failpoints(self) -> str:
        return os.path.join(self.home, "failpoints")

    @property
    def fifos(self) -> str:
        return os.path.join(self.run, "fifo")

    @property
    def socket(self) -> str:
        return os.path.join(self.run, "agent.sock")

    @property
    def lock(self) -> str:
        return os.path.join(self.run, "agent.lock")

    def make(self) -> None:
        """Make the folders, readable by root alone."""
        for path in (self.home, self.run, self.record, self.attempts, self.results, self.files, self.fifos):
            os.makedirs(path, mode=0o700, exist_ok=True)
