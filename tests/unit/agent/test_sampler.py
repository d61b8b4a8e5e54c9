"""NVML readings: a value, or null with its reason."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from workers.agent import sampler


class Nvml:
    """Two GPUs; the second has fallen off the bus, and the first can't tell its power."""

    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            if name == "nvmlDeviceGetCount":
                return 2
            if name == "nvmlDeviceGetHandleByIndex" and arguments[0] == 1:
                raise RuntimeError("GPU is lost")
            if name in ("nvmlDeviceGetPowerUsage", "nvmlSystemGetDriverVersion"):
                raise RuntimeError("Not Supported")
            return {
                "nvmlDeviceGetHandleByIndex": 5,
                "nvmlDeviceGetUUID": b"GPU-1",
                "nvmlDeviceGetPciInfo": SimpleNamespace(busId=b"00000000:01:00.0"),
                "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=97, memory=3),
                "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=5 << 20, total=100 << 20),
                "nvmlDeviceGetTemperature": 60,
                "nvmlDeviceGetClockInfo": 1980,
                "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=7, usedGpuMemory=None)],
                "nvmlDeviceGetName": "H100",
                "nvmlDeviceGetPowerManagementLimit": 700_000,
                "nvmlSystemGetCudaDriverVersion": 12040,
            }[name]

        return call


def test_samples() -> None:
    found = sampler.samples(Nvml())
    first, second = found["gpus"]
    assert found["nvml_error"] is None
    assert (first["uuid"], first["pci"], first["utilization_percent"]) == ("GPU-1", "00000000:01:00.0", 97)
    assert (first["power_watts"], first["errors"]) == (None, {"power": "Not Supported"})
    assert first["processes"] == [{"pid": 7, "memory_mib": None}]
    assert (second["uuid"], second["errors"]) == (None, {"handle": "GPU is lost"})


def test_inventory() -> None:
    found = sampler.inventory(Nvml())
    assert (found["cuda"], found["nvidia_driver"]) == ("12.4", None)
    assert (found["gpus"][0]["model"], found["gpus"][0]["memory_mib"]) == ("H100", 100)
    assert found["gpus"][0]["power_limit_watts"] == 700
