"""The NVML child process: one JSON line per reading. A driver that hangs, hangs this process alone."""

from __future__ import annotations

import json
import select
import signal
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

Gpu = Dict[str, Any]


def main() -> int:
    """Serve lines from stdin (`inventory`, or seconds between samples) until it closes or SIGTERM comes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        import pynvml as nvml

        nvml.nvmlInit()
    except Exception as error:
        _say({"kind": "inventory", "gpus": [], "nvml_error": f"NVML: {error}"})
        return 3
    try:
        _serve(nvml)
    finally:
        nvml.nvmlShutdown()  # an NVML client that vanishes without this has frozen GPUs
    return 0


def _serve(nvml: Any) -> None:
    _say(inventory(nvml))
    interval, due = 10.0, time.monotonic()
    while True:
        ready, _, _ = select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))
        if ready:
            line = sys.stdin.readline()
            if not line:
                return
            if line.strip() == "inventory":
                _say(inventory(nvml))
            else:
                interval = float(line)
                due = min(due, time.monotonic() + interval)
        if time.monotonic() >= due:
            _say(samples(nvml))
            due = time.monotonic() + interval


def inventory(nvml: Any) -> Dict[str, Any]:
    """Every GPU by UUID and PCI address, with versions."""
    errors: Dict[str, str] = {}
    driver = _read(errors, "driver", nvml.nvmlSystemGetDriverVersion)
    cuda = _read(errors, "cuda", nvml.nvmlSystemGetCudaDriverVersion)
    gpus, problem = _each(nvml, _describe)
    return {
        "kind": "inventory",
        "gpus": gpus,
        "nvml_error": problem,
        "nvidia_driver": _text(driver),
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}" if isinstance(cuda, int) else None,
    }


def samples(nvml: Any) -> Dict[str, Any]:
    """One round of readings."""
    gpus, problem = _each(nvml, _sample)
    return {"kind": "samples", "gpus": gpus, "nvml_error": problem}


def _each(nvml: Any, read: Callable[[Any, Any, Gpu], None]) -> Tuple[List[Gpu], Optional[str]]:
    try:
        count = nvml.nvmlDeviceGetCount()
    except Exception as error:
        return [], f"NVML: {error}"
    gpus: List[Gpu] = []
    for index in range(count):
        gpu: Gpu = {"index": index, "uuid": None, "pci": None, "errors": {}}
        handle = _read(gpu["errors"], "handle", nvml.nvmlDeviceGetHandleByIndex, index)
        if handle is not None:
            errors = gpu["errors"]
            gpu["uuid"] = _text(_read(errors, "uuid", nvml.nvmlDeviceGetUUID, handle))
            pci = _read(errors, "pci", nvml.nvmlDeviceGetPciInfo, handle)
            gpu["pci"] = _text(pci.busId) if pci is not None else None
            read(nvml, handle, gpu)
        gpus.append(gpu)
    return gpus, None


def _describe(nvml: Any, handle: Any, gpu: Gpu) -> None:
    errors = gpu["errors"]
    memory = _read(errors, "memory", nvml.nvmlDeviceGetMemoryInfo, handle)
    limit = _read(errors, "power_limit", nvml.nvmlDeviceGetPowerManagementLimit, handle)
    gpu["model"] = _text(_read(errors, "model", nvml.nvmlDeviceGetName, handle))
    gpu["memory_mib"] = memory.total >> 20 if memory is not None else None
    gpu["power_limit_watts"] = limit / 1000 if limit is not None else None


def _sample(nvml: Any, handle: Any, gpu: Gpu) -> None:
    errors = gpu["errors"]
    use = _read(errors, "utilization", nvml.nvmlDeviceGetUtilizationRates, handle)
    memory = _read(errors, "memory", nvml.nvmlDeviceGetMemoryInfo, handle)
    power = _read(errors, "power", nvml.nvmlDeviceGetPowerUsage, handle)
    gpu["utilization_percent"] = use.gpu if use is not None else None
    gpu["memory_utilization_percent"] = use.memory if use is not None else None
    gpu["memory_used_mib"] = memory.used >> 20 if memory is not None else None
    gpu["memory_total_mib"] = memory.total >> 20 if memory is not None else None
    gpu["temperature_c"] = _read(
        errors, "temperature", nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU
    )
    gpu["power_watts"] = power / 1000 if power is not None else None
    gpu["sm_clock_mhz"] = _read(errors, "sm_clock", nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM)
    processes = _read(errors, "processes", nvml.nvmlDeviceGetComputeRunningProcesses, handle)
    gpu["processes"] = [_process(one) for one in processes] if processes is not None else None


def _process(one: Any) -> Dict[str, Any]:
    used = one.usedGpuMemory
    return {"pid": one.pid, "memory_mib": used >> 20 if used is not None else None}


def _read(errors: Dict[str, str], name: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """A value, or None with its reason noted: one bad reading must not hide the others."""
    try:
        return call(*arguments)
    except Exception as error:
        errors[name] = str(error)[:200]
        return None


def _text(value: Any) -> Optional[str]:
    """NVML's text: bytes in older bindings."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return None if value is None else str(value)


def _say(message: Dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
