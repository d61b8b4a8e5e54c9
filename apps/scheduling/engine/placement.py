"""Where a workload goes; one function per policy, each a choice among nodes with room."""

from collections.abc import Callable, Sequence

from apps.scheduling.engine.state import Room
from apps.scheduling.engine.types import NodeView, WorkloadView


def best_fit(room: Room, nodes: Sequence[NodeView], workload: WorkloadView) -> NodeView:
    """Chooses the node that is left with the fewest free GPUs, then the least CPU and memory; ties by name."""
    return min(
        nodes,
        key=lambda n: (
            len(room.free_devices[n.id]) - workload.gpus,
            room.cpu[n.id] - workload.cpu_milli,
            room.memory[n.id] - workload.memory_mib,
            n.name,
        ),
    )


PLACEMENTS: dict[str, Callable[[Room, Sequence[NodeView], WorkloadView], NodeView]] = {"best_fit": best_fit}
