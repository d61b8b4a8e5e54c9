"""What may be watched, and by whom: one row per kind of topic. Sync code, for `database_sync_to_async`."""

import re
import uuid
from collections.abc import Callable, Iterable

from apps.core.access import Actor, Permission, allowed
from apps.fleet.selectors import node_seqs
from apps.workloads.selectors import job_seqs

_TOPIC = re.compile(r"^([a-z]{1,16})/([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|platform)$")
PLATFORM = "platform"

Seqs = dict[str, int | None]
"""By topic: the object's newest sequence number; None for lists, which have none."""


def _ids(names: Iterable[str]) -> list[uuid.UUID]:
    return [uuid.UUID(name) for name in names if name != PLATFORM]


def _jobs(actor: Actor, names: list[str]) -> Seqs:
    return {f"job/{key}": seq for key, seq in job_seqs(actor=actor, job_ids=_ids(names)).items()}


def _job_lists(actor: Actor, names: list[str]) -> Seqs:
    mine = [key for key in _ids(names) if allowed(actor, Permission.JOB_VIEW, tenant_id=key)]
    return {f"jobs/{key}": None for key in mine}


def _nodes(actor: Actor, names: list[str]) -> Seqs:
    if not allowed(actor, Permission.NODE_VIEW):
        return {}
    return {f"node/{key}": seq for key, seq in node_seqs(actor=actor, node_ids=_ids(names)).items()}


def _node_lists(actor: Actor, names: list[str]) -> Seqs:
    return {f"nodes/{PLATFORM}": None} if PLATFORM in names and allowed(actor, Permission.NODE_VIEW) else {}


KINDS: dict[str, Callable[[Actor, list[str]], Seqs]] = {
    "job": _jobs,
    "jobs": _job_lists,
    "node": _nodes,
    "nodes": _node_lists,
}
"""By kind: returns those of the named objects that the actor may watch. A new kind of topic is one row here."""


def is_topic(text: str) -> bool:
    """Says whether the text is a topic of a kind that exists."""
    match = _TOPIC.match(text)
    return match is not None and match.group(1) in KINDS


def visible(actor: Actor, topics: Iterable[str]) -> Seqs:
    """Returns those of the topics that exist and that the actor may watch, a few queries per kind."""
    names: dict[str, list[str]] = {}
    for topic in topics:
        match = _TOPIC.match(topic)
        if match:
            names.setdefault(match.group(1), []).append(match.group(2))
    found: Seqs = {}
    for kind, of_kind in names.items():
        if kind in KINDS:
            found |= KINDS[kind](actor, of_kind)
    return found
