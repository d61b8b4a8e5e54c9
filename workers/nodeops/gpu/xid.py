"""GPU faults in the kernel log: Xid lines and GPUs off the bus, from dmesg, kmsg or journal text.

What each Xid asks for is a fact of NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors, columns "Resolution
Bucket"), folded into the few acts that Berth knows.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from workers.nodeops.gpu.readings import pci_address

_XID = re.compile(r"NVRM: Xid \((PCI:[0-9A-Fa-f:.]{7,24})\): ([0-9]{1,4})(?![0-9])(?:,\s*(.*))?", re.ASCII)
_PROCESS = re.compile(r"pid=([0-9]{1,10})\b")
_OFF_BUS = re.compile(r"NVRM: (?:GPU )?(?:at )?\(?((?:PCI:)?[0-9A-Fa-f:.]{7,24}?)\)?:? (?:GPU )?has fallen off the bus")
_IDENTITY = re.compile(r"NVRM: GPU at (PCI:[0-9A-Fa-f:.]{7,24}): (GPU-[0-9A-Za-z-]{1,60})")

OFF_BUS = 79


class Act(enum.Enum):
    """What an event asks for; the last three take the GPU out of the offer."""

    IGNORE = "ignore"
    TELL_OWNER = "tell_owner"
    RESET_WHEN_IDLE = "reset_when_idle"
    RESET = "reset"
    REBOOT = "reboot"

    @property
    def isolates(self) -> bool:
        """Whether the GPU may not be given out until someone has acted."""
        return self in (Act.RESET_WHEN_IDLE, Act.RESET, Act.REBOOT)


_ACTS: dict[int, Act] = {
    **dict.fromkeys((37, 38, 44, 45, 63, 66, 67, 92, 93, 106, 107, 121, 137, 141, 152, 153, 157, 160, 161), Act.IGNORE),
    **dict.fromkeys((94, 48), Act.RESET_WHEN_IDLE),
    **dict.fromkeys((46, 62, 64, 74, 95, 109, 110, 119, 120, 136, 140, 142, 143, 154, 155, 156, 158), Act.RESET),
    **dict.fromkeys((54, OFF_BUS, 151), Act.REBOOT),
}


@dataclass(frozen=True)
class XidEvent:
    """Events of one GPU with one code, counted; `code` 79 also stands for a GPU off the bus without a number."""

    pci: str
    code: int
    act: Act
    detail: str = ""
    pid: int | None = None
    uuid: str = ""
    count: int = 1


def act_of(code: int) -> Act:
    """What an Xid asks for; an unknown one is told to the job's owner and takes nothing away."""
    return _ACTS.get(code, Act.TELL_OWNER)


def read_kernel_log(lines: Iterable[str]) -> tuple[XidEvent, ...]:
    """One event per GPU and code, in order of first sight; other lines, nvidia-peermem's too, are no GPU faults."""
    found: dict[tuple[str, int], XidEvent] = {}
    uuids: dict[str, str] = {}
    for line in lines:
        identity = _IDENTITY.search(line)
        if identity:
            uuids[pci_address(identity[1]) or ""] = identity[2]
        event = _event(line)
        if event is None:
            continue
        key = (event.pci, event.code)
        before = found.get(key)
        found[key] = replace(before, count=before.count + 1) if before else event
    return tuple(replace(event, uuid=uuids.get(event.pci, "")) for event in found.values())


def worst(events: Sequence[XidEvent]) -> dict[str, XidEvent]:
    """The event of each GPU that asks for most, among those that take it out of the offer; by PCI address."""
    order = list(Act)
    chosen: dict[str, XidEvent] = {}
    for event in events:
        held = chosen.get(event.pci)
        if event.act.isolates and (held is None or order.index(event.act) > order.index(held.act)):
            chosen[event.pci] = event
    return chosen


def reason(event: XidEvent) -> str:
    """The event in words for a person."""
    name = "fallen off the bus" if event.code == OFF_BUS else f"Xid {event.code}"
    asks = {
        Act.RESET_WHEN_IDLE: "reset the GPU once it is idle",
        Act.RESET: "drain, then reset the GPU or reboot the node",
        Act.REBOOT: "reboot the node; if it comes back, have the hardware looked at",
    }.get(event.act, "")
    return ": ".join(part for part in (name, asks) if part)


def _event(line: str) -> XidEvent | None:
    match = _XID.search(line)
    if match:
        pci, code, rest = pci_address(match[1]), int(match[2]), match[3] or ""
        process = _PROCESS.search(rest)
        if pci:
            pid = int(process[1]) if process else None
            return XidEvent(pci=pci, code=code, act=act_of(code), detail=_printable(rest), pid=pid)
    off = _OFF_BUS.search(line)
    pci = pci_address(off[1].rstrip(":")) if off else None
    return XidEvent(pci=pci, code=OFF_BUS, act=Act.REBOOT, detail="GPU has fallen off the bus") if pci else None


def _printable(text: str) -> str:
    return "".join(c for c in text if c.isprintable())[:200]
