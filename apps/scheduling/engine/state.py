"""The free room while a plan is being made: a working copy of the snapshot."""

from apps.scheduling.engine.types import WHOLE, ClusterSnapshot, NodeView, WorkloadView


class Room:
    """Free CPU, memory and whole GPUs per node, reduced by each decision."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.nodes = snapshot.nodes
        self.cpu = {n.id: n.cpu_milli_free for n in snapshot.nodes}
        self.memory = {n.id: n.memory_mib_free for n in snapshot.nodes}
        self.free_devices = {
            n.id: [d for d in n.devices if d.healthy and d.share_free == WHOLE] for n in snapshot.nodes
        }
        self.gpus_left = {t.id: t.gpus_left for t in snapshot.tenants}

    def matching(self, node: NodeView, workload: WorkloadView) -> list[str]:
        """Returns the ids of the node's free GPUs that suit the workload, in display order."""
        return [
            d.id
            for d in self.free_devices[node.id]
            if (not workload.gpu_model or d.model == workload.gpu_model) and d.memory_mib >= workload.gpu_memory_mib
        ]

    def take(self, node: NodeView, workload: WorkloadView, device_ids: tuple[str, ...]) -> None:
        """Books the decision."""
        self.cpu[node.id] -= workload.cpu_milli
        self.memory[node.id] -= workload.memory_mib
        taken = set(device_ids)
        self.free_devices[node.id] = [d for d in self.free_devices[node.id] if d.id not in taken]
        left = self.gpus_left.get(workload.tenant_id)
        if left is not None:
            self.gpus_left[workload.tenant_id] = left - workload.gpus
