"""Taking and giving back room on nodes, in the open transaction; the database refuses to pass the whole."""

import uuid
from collections.abc import Sequence

from django.db.models import F

from apps.core.errors import Conflict
from apps.fleet.choices import WHOLE_SHARE, GpuHealth, NodeState
from apps.fleet.models import GpuDevice, Node


class NoRoom(Conflict):
    """The room that a plan counted on is gone."""

    code = "no_room"


def room_take(*, node_id: uuid.UUID, cpu_milli: int, memory_mib: int) -> None:
    """Takes CPU (thousandths) and memory (MiB) of a ready node; raises NoRoom."""
    moved = Node.objects.filter(
        pk=node_id,
        state=NodeState.READY,
        cpu_milli__gte=F("cpu_milli_used") + cpu_milli,
        memory_mib__gte=F("memory_mib_used") + memory_mib,
    ).update(cpu_milli_used=F("cpu_milli_used") + cpu_milli, memory_mib_used=F("memory_mib_used") + memory_mib)
    if not moved:
        raise NoRoom("The node has no room for this any more.")


def room_return(*, node_id: uuid.UUID, cpu_milli: int, memory_mib: int) -> None:
    """Gives back what `room_take` took."""
    Node.objects.filter(pk=node_id).update(
        cpu_milli_used=F("cpu_milli_used") - cpu_milli, memory_mib_used=F("memory_mib_used") - memory_mib
    )


def gpus_take(*, gpu_ids: Sequence[uuid.UUID], share: int = WHOLE_SHARE) -> None:
    """Takes a share of each healthy GPU, all or none; raises NoRoom."""
    moved = GpuDevice.objects.filter(pk__in=gpu_ids, health=GpuHealth.OK, share_used__lte=WHOLE_SHARE - share).update(
        share_used=F("share_used") + share
    )
    if moved != len(gpu_ids):
        raise NoRoom("A GPU of the plan is no longer free.")


def gpus_return(*, gpu_ids: Sequence[uuid.UUID], share: int = WHOLE_SHARE) -> None:
    """Gives back what `gpus_take` took."""
    GpuDevice.objects.filter(pk__in=gpu_ids).update(share_used=F("share_used") - share)
