"""One reading: a value, or unknown with the reason; never a made-up 0."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

_NUMBER = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(%|MiB|MHz|W|C|KiB|GiB|MB/s|KB/s)?", re.ASCII)
_UNKNOWN = re.compile(
    r"\[?\s*(N/A|Not Supported|Not Available|Insufficient Permissions|Unknown Error|GPU is lost|Unknown|Requested \S.*|"
    r"ERR!|Error.*|GPU requires reset|Not Found|No data|)\s*\]?$",
    re.IGNORECASE,
)
_PCI = re.compile(r"(?:PCI:)?([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-9a-f])?", re.IGNORECASE | re.ASCII)

BOUNDS: Mapping[str, float] = {
    "utilisation_percent": 100,
    "memory_utilisation_percent": 100,
    "memory_total_mib": 16 << 20,
    "memory_used_mib": 16 << 20,
    "temperature_celsius": 200,
    "power_watts": 20_000,
    "power_limit_watts": 20_000,
    "sm_clock_mhz": 20_000,
    "fan_percent": 200,
    "pcie_replays": 2**53,
    "ecc_uncorrected": 2**53,
    "index": 1024,
}
"""The largest value of each field that is believed; what is above is unknown."""


@dataclass(frozen=True)
class Reading:
    """`value` None is unknown, and `why` says why."""

    value: float | str | None
    why: str = ""


ABSENT = Reading(None, "not reported")


def number(field: str, text: str | None) -> Reading:
    """A number in the field's own unit from `38 %`, `575 MiB` or `26.78 W`; anything else is unknown with its words."""
    if text is None:
        return ABSENT
    words = text.strip()
    match = _NUMBER.fullmatch(words)
    if not match:
        return Reading(None, unknown_words(words))
    value = float(match[1])
    if not math.isfinite(value) or value > BOUNDS.get(field, math.inf):
        return Reading(None, f"not believed: {words[:40]}")
    return Reading(value)


def word(text: str | None) -> Reading:
    """A word, or unknown with its reason."""
    if text is None:
        return ABSENT
    words = _clean(text)
    if _UNKNOWN.match(words):
        return Reading(None, unknown_words(words))
    return Reading(words[:200])


def unknown_words(words: str) -> str:
    """The reason as the tool gave it, without brackets."""
    inner = _clean(words).strip("[]").strip()
    return inner[:80] or "empty"


def whole(reading: Reading) -> int | None:
    """The reading as a whole number, if it is one."""
    return int(reading.value) if isinstance(reading.value, float) else None


def text(reading: Reading) -> str:
    """The reading as a word; empty when unknown."""
    return reading.value if isinstance(reading.value, str) else ""


def pci_address(words: str) -> str | None:
    """`0000:9b:00`, `PCI:0000:9b:00` and `00000000:9B:00.0` are the same device: 00000000:9B:00.0."""
    match = _PCI.fullmatch(words.strip())
    return f"{match[1]:0>8}:{match[2]}:{match[3]}.0".upper() if match else None


def _clean(words: str) -> str:
    return "".join(c for c in words if c.isprintable()).strip()
