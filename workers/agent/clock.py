"""The node's clocks and boot id."""

from __future__ import annotations

import time
from typing import Any, Dict

from workers.agent.files import read_text


def boot_id() -> str:
    """The id of this boot of the node."""
    return read_text("/proc/sys/kernel/random/boot_id").strip()


def now() -> Dict[str, Any]:
    """mono_ns, utc_ns and boot_id, as most messages carry them."""
    return {"mono_ns": time.monotonic_ns(), "utc_ns": time.time_ns(), "boot_id": boot_id()}
