"""`nvidia-smi topo -m`: NVLink islands, NUMA groups and the nearest NIC of each GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_ANSI = re.compile(r"\x1b?\[[0-9;]{0,8}m")
_DEVICE = re.compile(r"(GPU|NIC)[0-9]{1,4}", re.ASCII)
_LINK = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV[0-9]{1,3}", re.ASCII)
_NEAR = ("PIX", "PXB")


@dataclass(frozen=True)
class Topology:
    """Links by pair of names; NUMA node by GPU name, absent when unknown."""

    links: dict[tuple[str, str], str] = field(default_factory=dict)
    numa: dict[str, int] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()

    def islands(self) -> tuple[tuple[str, ...], ...]:
        """Groups of GPUs joined by NVLink, in order; a GPU without NVLink stands alone."""
        left, found = list(self.gpus), []
        while left:
            group, queue = set(), [left[0]]
            while queue:
                one = queue.pop()
                group.add(one)
                queue += [g for g in left if g not in group and self.links.get((one, g), "").startswith("NV")]
            found.append(tuple(g for g in left if g in group))
            left = [g for g in left if g not in group]
        return tuple(found)

    def numa_groups(self) -> dict[int, tuple[str, ...]]:
        """GPUs by NUMA node."""
        return {n: tuple(g for g in self.gpus if self.numa.get(g) == n) for n in sorted(set(self.numa.values()))}

    def near_nics(self, gpu: str) -> tuple[str, ...]:
        """NICs behind the same PCIe switches."""
        return tuple(b for (a, b), link in self.links.items() if a == gpu and b.startswith("NIC") and link in _NEAR)


def read_topology(output: str) -> Topology:
    """Reads the matrix; colour codes, extra columns, legends and torn rows do no harm."""
    names: list[str] = []
    links: dict[tuple[str, str], str] = {}
    numa: dict[str, int] = {}
    gpus: list[str] = []
    numa_at = -1
    for line in _ANSI.sub("", output).splitlines():
        cells = [cell.strip() for cell in line.split("\t")]
        if not names:
            names = [cell for cell in cells if _DEVICE.fullmatch(cell)] if not cells[0] else []
            numa_at = cells.index("NUMA Affinity") if names and "NUMA Affinity" in cells else -1
            continue
        if not _DEVICE.fullmatch(cells[0]) or cells[0] not in names:
            continue
        if cells[0].startswith("GPU") and cells[0] not in gpus:
            gpus.append(cells[0])
        for name, cell in zip(names, cells[1:], strict=False):
            if name != cells[0] and _LINK.fullmatch(cell):
                links[(cells[0], name)] = cell
        where = cells[numa_at] if 0 <= numa_at < len(cells) else ""
        if where.isascii() and where.isdigit() and len(where) <= 4:
            numa[cells[0]] = int(where)
    return Topology(links=links, numa=numa, gpus=tuple(gpus))
