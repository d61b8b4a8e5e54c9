"""`nvidia-smi` as the second source beside NVML: `-q -x`, `--query-gpu` CSV, `-L` and its table."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from workers.nodeops.gpu.readings import Reading, number, pci_address, text, whole, word

MODEL_UNKNOWN = "unknown model"

_CSV_NUMBERS = {
    "utilisation_percent": ("utilization.gpu",),
    "memory_utilisation_percent": ("utilization.memory",),
    "memory_total_mib": ("memory.total",),
    "memory_used_mib": ("memory.used",),
    "temperature_celsius": ("temperature.gpu",),
    "power_watts": ("power.draw.instant", "power.draw"),
    "power_limit_watts": ("power.limit",),
    "sm_clock_mhz": ("clocks.current.sm", "clocks.sm"),
    "fan_percent": ("fan.speed",),
    "index": ("index",),
}
_CSV_WORDS = {
    "serial": ("serial",),
    "persistence": ("persistence_mode",),
    "ecc_mode": ("ecc.mode.current",),
    "mig_mode": ("mig.mode.current",),
    "fabric_state": ("fabric.state",),
    "fabric_status": ("fabric.status",),
    "recovery_action": ("gpu_recovery_action",),
    "driver": ("driver_version",),
}
_LOST = re.compile(
    r"Unable to determine the device handle for (?:GPU|gpu)\s*([0-9]{1,4})?:?\s*([0-9A-Fa-f:.]{7,20}):\s*(.{1,120})"
)
_LISTED = re.compile(r"GPU ([0-9]{1,4}): (.{1,120}?) \(UUID: (GPU-[0-9A-Za-z-]{1,60})\)")
_MIG_LISTED = re.compile(r"\s+MIG\s+(\S{1,40})\s+Device\s+([0-9]{1,3}): \(UUID: (MIG-[0-9A-Za-z/-]{1,80})\)")
_TABLE_HEAD = re.compile(r"\|\s+([0-9]{1,4})\s+\S.*\|\s+([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s")
_UUID = re.compile(r"GPU-[0-9A-Za-z-]{1,60}")


@dataclass(frozen=True)
class MigSlice:
    """A MIG device; slices of one GPU instance share its memory."""

    gpu_instance: int
    compute_instance: int
    memory_mib: int | None
    uuid: str = ""


@dataclass(frozen=True)
class SmiGpu:
    """One GPU; identity is the UUID and the PCI address, the index is for display."""

    uuid: str
    pci: str | None
    index: int | None
    model: str
    readings: Mapping[str, Reading] = field(default_factory=dict)
    fault: str = ""
    clocks_held: tuple[str, ...] = ()
    mig: tuple[MigSlice, ...] = ()

    def get(self, name: str) -> Reading:
        """The reading of this name."""
        return self.readings.get(name, Reading(None, "not reported"))


@dataclass(frozen=True)
class SmiReport:
    """What one run of nvidia-smi said; `problems` are its words about the rest."""

    gpus: tuple[SmiGpu, ...] = ()
    driver: str = ""
    cuda: str = ""
    attached: int | None = None
    problems: tuple[str, ...] = ()


def mig_memory_mib(slices: Sequence[MigSlice]) -> int:
    """Memory in MIG devices, each GPU instance's counted once: its compute instances share it."""
    largest: dict[int, int] = {}
    for one in slices:
        largest[one.gpu_instance] = max(largest.get(one.gpu_instance, 0), one.memory_mib or 0)
    return sum(largest.values())


def read_csv(output: str, columns: Sequence[str] = ()) -> SmiReport:
    """GPUs of `--query-gpu`; without `columns` the first row that names a UUID or index is the header.

    Columns are found by name, units in cells or in the header are both read, and a line of words among the rows is a
    problem, or a lost GPU, but never a GPU.
    """
    names = [_column(name) for name in columns]
    gpus: list[SmiGpu] = []
    problems: list[str] = []
    for row in _rows(output):
        cells = [cell.strip() for cell in row]
        lost = _lost(", ".join(cells))
        if lost is not None:
            gpus.append(lost)
        elif not names and {"uuid", "index", "name"} & {_column(cell) for cell in cells}:
            names = [_column(cell) for cell in cells]
        elif names and [_column(cell) for cell in cells] == names:
            continue
        elif names and len(cells) == len(names) and _named(gpu := _gpu(dict(zip(names, cells, strict=True)))):
            gpus.append(gpu)
        elif any(cells):
            problems.append(", ".join(cells)[:200])
    driver = next((text(gpu.get("driver")) for gpu in gpus if text(gpu.get("driver"))), "")
    return SmiReport(gpus=tuple(gpus), driver=driver, problems=tuple(problems))


def read_list(output: str) -> SmiReport:
    """GPUs and MIG devices of `nvidia-smi -L`."""
    gpus: list[SmiGpu] = []
    problems: list[str] = []
    for line in output.splitlines():
        found, mig, lost = _LISTED.match(line), _MIG_LISTED.match(line), _lost(line)
        if found:
            gpus.append(SmiGpu(uuid=found[3], pci=None, index=int(found[1]), model=found[2]))
        elif lost is not None:
            gpus.append(lost)
        elif line.strip() and not mig:
            problems.append(line.strip()[:200])
    return SmiReport(gpus=tuple(gpus), problems=tuple(problems))


def table_faults(output: str) -> dict[str, str]:
    """{PCI address: fault} of GPUs that show ERR! in nvidia-smi's table."""
    faults: dict[str, str] = {}
    current = ""
    for line in output.splitlines():
        head = _TABLE_HEAD.match(line)
        if head:
            current = pci_address(head[2]) or ""
        if current and "ERR!" in line:
            faults[current] = "nvidia-smi shows ERR! in place of a reading"
    return faults


def _rows(output: str) -> Iterator[list[str]]:
    for line in output.replace("\0", "").splitlines():
        try:
            yield next(csv.reader([line], skipinitialspace=True), [])
        except csv.Error:
            yield [line[:200]]


def _column(name: str) -> str:
    return name.split("[", 1)[0].strip().strip('"').lower()


def _gpu(cells: Mapping[str, str]) -> SmiGpu:
    readings = {field: number(field, _first(cells, names)) for field, names in _CSV_NUMBERS.items()}
    readings |= {field: word(_first(cells, names)) for field, names in _CSV_WORDS.items()}
    uuid = cells.get("uuid") or cells.get("gpu_uuid") or ""
    held = tuple(sorted(n.rpartition(".")[2] for n, v in cells.items() if _held(n, v)))
    return SmiGpu(
        uuid=uuid if _UUID.fullmatch(uuid) else "",
        pci=pci_address(cells.get("pci.bus_id") or cells.get("gpu_bus_id") or ""),
        index=whole(readings["index"]),
        model=text(word(cells.get("name") or cells.get("gpu_name"))) or MODEL_UNKNOWN,
        readings=readings,
        fault=fault_of(readings),
        clocks_held=held,
    )


def _named(gpu: SmiGpu) -> bool:
    """A row that names no device is words, not a GPU."""
    return bool(gpu.uuid or gpu.pci or gpu.index is not None)


def _held(name: str, value: str) -> bool:
    reasons = ("clocks_event_reasons.", "clocks_throttle_reasons.")
    return name.startswith(reasons) and value == "Active"


def _first(cells: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((cells[name] for name in names if name in cells), None)


def fault_of(readings: Mapping[str, Reading]) -> str:
    """Why this GPU can't be given out, by its own readings; empty when nothing speaks against it.

    N/A, missing fans and missing ECC are no faults.
    """
    action = readings.get("recovery_action", Reading(None)).value
    if isinstance(action, str) and action.lower() not in ("none", "not required"):
        return f"the driver asks for: {action}"
    for name, reading in readings.items():
        why = reading.why.lower()
        if reading.value is None and ("lost" in why or "err!" in why or "requires reset" in why):
            return f"{name}: {reading.why}"
    if readings.get("remap_pending", Reading(None)).value == "Yes":
        return "a row remap waits for a GPU reset"
    state = readings.get("fabric_state", Reading(None)).value
    if state in ("In Progress", "Not Started"):
        return f"the NVLink fabric is {str(state).lower()}: CUDA can't start (error 802)"
    return ""


def _lost(line: str) -> SmiGpu | None:
    match = _LOST.search(line)
    if not match:
        return None
    index = int(match[1]) if match[1] else None
    return SmiGpu(
        uuid="", pci=pci_address(match[2].rstrip(":")), index=index, model=MODEL_UNKNOWN, fault=match[3].strip()
    )
