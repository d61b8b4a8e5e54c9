"""States of nodes and operations, and the edges between them."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class NodeState(models.TextChoices):
    """Where a node stands; `unreachable` is reversible and ends nothing."""

    ENROLLING = "enrolling", _("enrolling")
    READY = "ready", _("ready")
    CORDONED = "cordoned", _("cordoned")
    DRAINING = "draining", _("draining")
    UNREACHABLE = "unreachable", _("unreachable")
    DOWN = "down", _("down")
    MAINTENANCE = "maintenance", _("maintenance")
    RETIRED = "retired", _("retired")


_N = NodeState
IN_SERVICE = (_N.READY, _N.CORDONED, _N.DRAINING, _N.MAINTENANCE)
LINKED = (_N.ENROLLING, *IN_SERVICE, _N.UNREACHABLE, _N.DOWN)  # states in which a worker keeps a link or tries to

NODE_TRANSITIONS: dict[str, tuple[str, ...]] = {
    _N.ENROLLING: (_N.READY, _N.UNREACHABLE, _N.RETIRED),
    _N.READY: (_N.CORDONED, _N.DRAINING, _N.UNREACHABLE, _N.MAINTENANCE, _N.DOWN),
    _N.CORDONED: (_N.READY, _N.DRAINING, _N.UNREACHABLE, _N.MAINTENANCE, _N.DOWN, _N.RETIRED),
    _N.DRAINING: (_N.READY, _N.CORDONED, _N.UNREACHABLE, _N.MAINTENANCE, _N.DOWN),
    _N.UNREACHABLE: (_N.ENROLLING, _N.READY, _N.CORDONED, _N.DRAINING, _N.MAINTENANCE, _N.DOWN, _N.RETIRED),
    _N.DOWN: (_N.ENROLLING, _N.READY, _N.CORDONED, _N.DRAINING, _N.MAINTENANCE, _N.RETIRED),
    _N.MAINTENANCE: (_N.READY, _N.CORDONED, _N.UNREACHABLE, _N.DOWN, _N.RETIRED),
    _N.RETIRED: (),
}


class OperationState(models.TextChoices):
    """Where a node operation stands."""

    QUEUED = "queued", _("queued")
    CLAIMED = "claimed", _("claimed")
    DONE = "done", _("done")
    FAILED = "failed", _("failed")


_O = OperationState
OPERATION_TRANSITIONS: dict[str, tuple[str, ...]] = {
    _O.QUEUED: (_O.CLAIMED, _O.FAILED),
    _O.CLAIMED: (_O.QUEUED, _O.DONE, _O.FAILED),
    _O.DONE: (),
    _O.FAILED: (),
}


class OperationKind(models.TextChoices):
    """What can be asked of a node; the agent's protocol has the same words."""

    ATTEMPT_START = "attempt_start", _("start an attempt")
    ATTEMPT_STOP = "attempt_stop", _("stop an attempt")
    ATTEMPT_REMOVE = "attempt_remove", _("remove an attempt's traces")
    INVENTORY = "inventory", _("take inventory")


class GpuHealth(models.TextChoices):
    """Whether a GPU can be given out."""

    OK = "ok", _("ok")
    LOST = "lost", _("fallen off the bus")
    FAILING = "failing", _("failing")
    MISSING = "missing", _("not seen in the last inventory")


WHOLE_SHARE = 1000
"""Share units of a whole GPU."""
