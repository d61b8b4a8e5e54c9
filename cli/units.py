"""Amounts as people write them: `4Gi`, `512M`, `2h`, `90m`."""

import re

MIB = 1024**2
_SIZES = {
    "": MIB, "m": MIB, "mi": MIB, "mib": MIB, "mb": MIB,
    "k": 1024, "ki": 1024, "kib": 1024, "kb": 1024,
    "g": 1024**3, "gi": 1024**3, "gib": 1024**3, "gb": 1024**3,
    "t": 1024**4, "ti": 1024**4, "tib": 1024**4, "tb": 1024**4,
}  # fmt: skip
_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*$")
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def mib(text: str | int | float) -> int:
    """Returns MiB of `4Gi`, `512Mi`, `2T` or a bare number of MiB, rounded up; all units count by 1024.

    Raises ValueError with a sentence that says what is right.
    """
    found = _SIZE.match(str(text))
    factor = _SIZES.get(found[2].lower()) if found else None
    if found is None or factor is None:
        raise ValueError(f"{text!r} is not an amount of memory: write it as 512Mi or 4Gi.")
    return -int(-float(found[1]) * factor // MIB)


def seconds(text: str | int | float) -> int:
    """Returns seconds of `90`, `30m`, `2h`, `1d12h`. Raises ValueError with a sentence that says what is right."""
    rest, total = str(text).strip().lower(), 0.0
    parts = list(_PART.finditer(rest))
    whole = "".join(part[0] for part in parts)
    if not parts or whole != rest or any(part[2] not in _SECONDS for part in parts):
        raise ValueError(f"{text!r} is not a duration: write it as 90s, 30m, 2h or 1d12h.")
    for part in parts:
        total += float(part[1]) * _SECONDS[part[2]]
    return int(total)
