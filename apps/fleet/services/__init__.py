"""Everything that changes nodes: enrolment and life, links, operations, room."""

from apps.fleet.services.capacity import NoRoom, gpus_return, gpus_take, room_return, room_take
from apps.fleet.services.enrolment import (
    host_key_offered,
    node_add,
    node_trust,
    preflight_record,
    scan_failed,
)
from apps.fleet.services.inventory import node_inventory
from apps.fleet.services.life import (
    gpu_health_set,
    gpus_fail,
    inventory_apply,
    node_alive,
    node_cordon,
    node_drain,
    node_greeted,
    node_maintenance,
    node_mark_down,
    node_retire,
    node_uncordon,
    nodes_mark_silent,
)
from apps.fleet.services.links import (
    StaleLink,
    link_acquire,
    link_check,
    link_failed,
    link_release,
    links_release_of,
    links_renew,
)
from apps.fleet.services.operations import (
    operation_claim,
    operation_create,
    operation_finish,
    operations_cancel,
    operations_expire,
    operations_requeue_of_link,
)
from apps.fleet.services.portal_key import portal_key_private, portal_key_public

__all__ = [
    "NoRoom",
    "StaleLink",
    "gpu_health_set",
    "gpus_fail",
    "gpus_return",
    "gpus_take",
    "host_key_offered",
    "inventory_apply",
    "link_acquire",
    "link_check",
    "link_failed",
    "link_release",
    "links_release_of",
    "links_renew",
    "node_add",
    "node_alive",
    "node_cordon",
    "node_drain",
    "node_greeted",
    "node_inventory",
    "node_maintenance",
    "node_mark_down",
    "node_retire",
    "node_trust",
    "node_uncordon",
    "nodes_mark_silent",
    "operation_claim",
    "operation_create",
    "operation_finish",
    "operations_cancel",
    "operations_expire",
    "operations_requeue_of_link",
    "portal_key_private",
    "portal_key_public",
    "preflight_record",
    "room_return",
    "room_take",
    "scan_failed",
]
