"""Whether a workload could run, on an empty cluster and now; each refusal is a Reason."""

from apps.scheduling.engine.state import Room
from apps.scheduling.engine.types import NodeView, Reason, WorkloadView


def suits_empty(node: NodeView, workload: WorkloadView) -> bool:
    """Says whether the node could run the workload if it were idle."""
    return (
        node.cpu_milli >= workload.cpu_milli
        and node.memory_mib >= workload.memory_mib
        and len(suitable_devices(node, workload)) >= workload.gpus
    )


def suitable_devices(node: NodeView, workload: WorkloadView) -> list[str]:
    """Returns the healthy GPUs of the node that suit the workload, busy or not."""
    return [
        d.id
        for d in node.devices
        if d.healthy
        and (not workload.gpu_model or d.model == workload.gpu_model)
        and d.memory_mib >= workload.gpu_memory_mib
    ]


def never_fits(nodes: tuple[NodeView, ...], workload: WorkloadView) -> Reason | None:
    """Returns why no node in service could ever run the workload, or None."""
    if not nodes:
        return Reason("no_nodes")
    if any(suits_empty(node, workload) for node in nodes):
        return None
    most = max(len(suitable_devices(node, workload)) for node in nodes)
    return Reason(
        "never_fits",
        {
            "gpus_asked": workload.gpus,
            "gpus_most_on_a_node": most,
            "gpu_model": workload.gpu_model,
            "gpu_memory_mib": workload.gpu_memory_mib,
            "cpu_milli_asked": workload.cpu_milli,
            "cpu_milli_most": max(node.cpu_milli for node in nodes),
            "memory_mib_asked": workload.memory_mib,
            "memory_mib_most": max(node.memory_mib for node in nodes),
        },
    )


def fits_now(room: Room, node: NodeView, workload: WorkloadView) -> bool:
    """Says whether the node has free room for the workload now."""
    return (
        room.cpu[node.id] >= workload.cpu_milli
        and room.memory[node.id] >= workload.memory_mib
        and len(room.matching(node, workload)) >= workload.gpus
    )


def busy_reason(room: Room, workload: WorkloadView) -> Reason:
    """Returns which kind of room is missing for a workload that would fit an idle node."""
    free = [len(room.matching(node, workload)) for node in room.nodes if suits_empty(node, workload)]
    if workload.gpus and max(free) < workload.gpus:
        numbers = {"gpus_asked": workload.gpus, "gpus_free_most_on_a_node": max(free), "gpus_free": sum(free)}
        return Reason("gpus_busy", numbers)
    return Reason("room_busy", {"cpu_milli_asked": workload.cpu_milli, "memory_mib_asked": workload.memory_mib})
