"""`nvidia-smi -q -x`: DTD versions 9 to 13, with elements missing or moved."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree  # nosec B405

from workers.nodeops.gpu.readings import Reading, number, pci_address, text, whole, word
from workers.nodeops.gpu.smi import MODEL_UNKNOWN, MigSlice, SmiGpu, SmiReport, fault_of

_ROOT = "nvidia_smi_log"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

_NUMBERS: dict[str, tuple[str, ...]] = {
    "utilisation_percent": ("utilization/gpu_util",),
    "memory_utilisation_percent": ("utilization/memory_util",),
    "memory_total_mib": ("fb_memory_usage/total",),
    "memory_used_mib": ("fb_memory_usage/used",),
    "temperature_celsius": ("temperature/gpu_temp",),
    "power_watts": (
        "gpu_power_readings/instant_power_draw", "gpu_power_readings/power_draw", "power_readings/power_draw",
    ),
    "power_limit_watts": (
        "gpu_power_readings/current_power_limit", "gpu_power_readings/power_limit", "power_readings/power_limit",
    ),
    "sm_clock_mhz": ("clocks/sm_clock",),
    "fan_percent": ("fan_speed",),
    "pcie_replays": ("pci/replay_counter",),
    "ecc_uncorrected": ("ecc_errors/volatile/dram_uncorrectable", "ecc_errors/volatile/double_bit/total"),
    "index": ("minor_number",),
}  # fmt: skip
_WORDS: dict[str, tuple[str, ...]] = {
    "serial": ("serial",),
    "persistence": ("persistence_mode",),
    "ecc_mode": ("ecc_mode/current_ecc",),
    "mig_mode": ("mig_mode/current_mig",),
    "fabric_state": ("fabric/state",),
    "fabric_status": ("fabric/status",),
    "recovery_action": ("gpu_recovery_action",),
    "remap_pending": ("remapped_rows/remapped_row_pending",),
    "retirement_pending": ("retired_pages/pending_retirement",),
}
_REASONS = ("clocks_event_reasons", "clocks_throttle_reasons")


def read_xml(output: str) -> SmiReport:
    """GPUs of `-q -x`; text before the document, a cut document or none at all are problems, never exceptions."""
    start, end = output.find(f"<{_ROOT}"), output.rfind(f"</{_ROOT}>")
    body = _CONTROL.sub("", output[start:end] + f"</{_ROOT}>" if end > start else output[start:]) if start >= 0 else ""
    if not body:
        first = output.strip().splitlines()[:1]
        return SmiReport(problems=(first[0][:200] if first else "nvidia-smi said nothing",))
    try:
        # What is parsed begins behind any DTD, so no entity can be defined.
        root = ElementTree.fromstring(body)  # noqa: S314  # nosec B314
    except (ElementTree.ParseError, ValueError) as error:
        return SmiReport(problems=(f"nvidia-smi's XML is not whole: {error}"[:200],))
    gpus = tuple(_gpu(element) for element in root.findall("gpu"))
    attached = whole(number("index", root.findtext("attached_gpus")))
    missing = (
        (f"nvidia-smi counts {attached} GPUs and describes {len(gpus)}",)
        if attached is not None and attached != len(gpus)
        else ()
    )
    return SmiReport(
        gpus=gpus,
        driver=text(word(root.findtext("driver_version"))),
        cuda=text(word(root.findtext("cuda_version"))),
        attached=attached,
        problems=missing,
    )


def _gpu(element: ElementTree.Element) -> SmiGpu:
    readings = {field: number(field, _first(element, paths)) for field, paths in _NUMBERS.items()}
    readings |= {field: word(_first(element, paths)) for field, paths in _WORDS.items()}
    uuid = (element.findtext("uuid") or "").strip()
    return SmiGpu(
        uuid=uuid[:64] if uuid.startswith("GPU-") else "",
        pci=pci_address(element.findtext("pci/pci_bus_id") or element.get("id") or ""),
        index=whole(readings["index"]),
        model=text(word(element.findtext("product_name"))) or MODEL_UNKNOWN,
        readings=readings,
        fault=fault_of(readings),
        clocks_held=_held(element),
        mig=tuple(_slice(one) for one in element.findall("mig_devices/mig_device")),
    )


def _first(element: ElementTree.Element, paths: Sequence[str]) -> str | None:
    """The first path with a known value, else the first with any: newer files keep the old element as N/A."""
    found = [value for value in (element.findtext(path) for path in paths) if value is not None]
    return next((value for value in found if value.strip() not in ("N/A", "")), found[0] if found else None)


def _held(element: ElementTree.Element) -> tuple[str, ...]:
    active = [
        reason.tag.partition("_reason_")[2]
        for name in _REASONS
        for reason in element.findall(f"{name}/*")
        if (reason.text or "").strip() == "Active"
    ]
    return tuple(sorted(set(filter(None, active))))


def _slice(element: ElementTree.Element) -> MigSlice:
    def count(path: str) -> int:
        return whole(number("index", element.findtext(path))) or 0

    memory: Reading = number("memory_total_mib", element.findtext("fb_memory_usage/total"))
    return MigSlice(
        gpu_instance=count("gpu_instance_id"),
        compute_instance=count("compute_instance_id"),
        memory_mib=whole(memory),
        uuid=(element.findtext("uuid") or "").strip()[:80],
    )
