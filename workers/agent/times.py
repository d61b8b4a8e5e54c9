"""The runtime's timestamps."""

from __future__ import annotations

import calendar
import re
import time

_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)")


def rfc3339_ns(text: str) -> int:
    """Nanoseconds since 1970 of a timestamp; 0 for the zero time and for what can't be read."""
    match = _RFC3339.fullmatch(text.strip())
    if match is None:
        return 0
    try:
        seconds = calendar.timegm(time.strptime(match[1], "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return 0
    if match[3] != "Z":
        sign = -1 if match[3][0] == "-" else 1
        seconds -= sign * (int(match[3][1:3]) * 3600 + int(match[3][4:6]) * 60)
    return max(0, seconds * 10**9 + int((match[2] or "0").ljust(9, "0")))
