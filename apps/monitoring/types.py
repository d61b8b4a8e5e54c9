"""Readings as values."""

import dataclasses
import datetime as dt


@dataclasses.dataclass(frozen=True)
class GpuReading:
    """One reading of one GPU; None means unknown."""

    gpu_uuid: str
    at: dt.datetime
    utilisation_percent: float | None
    memory_used_mib: float | None
    temperature_celsius: float | None
    power_watts: float | None
    sm_clock_mhz: float | None
