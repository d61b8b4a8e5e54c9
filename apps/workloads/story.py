"""A job's way as its page tells it: the timeline and a sentence per event."""

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from apps.workloads.choices import EndReason, JobResult, JobState, PendingReason
from apps.workloads.types import JobView


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of the timeline; `at` None means not reached; `took` is the time since the step before."""

    key: str
    label: str
    at: dt.datetime | None
    took: dt.timedelta | None = None


_BEGIN = ("job.submitted", "job.requeued")
_STEP_OF = {
    "job.submitted": "submitted",
    "job.requeued": "submitted",
    "job.placed": "placed",
    "job.created": "image",
    "job.running": "running",
    "job.cancel_requested": "stopping",
    "job.ended": "ended",
    "job.cancelled": "ended",
}
_EXPECTED = ("submitted", "placed", "image", "running", "ended")


def timeline(job: JobView, events: Iterable[Mapping[str, Any]]) -> list[Step]:
    """Returns the steps of the newest try, reached ones first; steps ahead are left out once the job has ended."""
    reached: dict[str, dt.datetime] = {}
    for event in events:
        if event["name"] in _BEGIN:
            reached = {}
        step = _STEP_OF.get(event["name"])
        if step:
            reached.setdefault(step, event["at"])
    steps, before = [], None
    for key, at in reached.items():
        steps.append(Step(key, _label(key, job), at, at - before if before else None))
        before = at
    if job.state != JobState.ENDED:
        steps += [Step(key, _label(key, job), None) for key in _EXPECTED if key not in reached]
    return steps


def _label(key: str, job: JobView) -> str:
    if key == "ended" and job.result:
        return str(JobResult(job.result).label)
    if key == "submitted" and job.attempts and job.state == JobState.PENDING:
        return _("requeued")
    return {
        "submitted": _("submitted"),
        "placed": str(JobState.PLACED.label),
        "image": _("image ready"),
        "running": str(JobState.RUNNING.label),
        "stopping": str(JobState.STOPPING.label),
        "ended": str(JobState.ENDED.label),
    }[key]


def event_text(event: Mapping[str, Any]) -> str:
    """Returns what happened, in the active language; an unknown event shows its name."""
    make = _SENTENCES.get(event["name"])
    return make(event["data"]) if make else str(event["name"])


def _waits(data: Mapping[str, Any]) -> str:
    reason = data.get("reason", "")
    return str(PendingReason(reason).label).capitalize() if reason in PendingReason.values else _("Waits")


def _reason(data: Mapping[str, Any]) -> str:
    reason = data.get("reason", "")
    text = str(EndReason(reason).label) if reason in EndReason.values else str(reason)
    return f"{text} ({data['detail']})" if data.get("detail") else text


def _requeued(data: Mapping[str, Any]) -> str:
    if data.get("by"):
        return _("Requeued by %(who)s") % {"who": data["by"]}
    return _("Requeued after attempt %(no)s: %(reason)s") % {"no": data.get("attempt"), "reason": _reason(data)}


def _ended(data: Mapping[str, Any]) -> str:
    result = data.get("result", "")
    word = str(JobResult(result).label) if result in JobResult.values else str(result)
    return _("Ended: %(result)s, %(reason)s") % {"result": word, "reason": _reason(data)}


_SENTENCES = {
    "job.submitted": lambda d: pgettext("event", "Submitted"),
    "job.waits": _waits,
    "job.placed": lambda d: (
        _("Placed on node %(node)s with %(gpus)s GPUs") % {"node": d.get("node"), "gpus": d.get("gpus")}
    ),
    "job.starting": lambda d: _("The node has taken it on"),
    "job.pulling": lambda d: _("The node pulls the image"),
    "job.created": lambda d: _("Image ready, container created"),
    "job.running": lambda d: _("The container runs"),
    "job.stuck": lambda d: _("The container does not end: %(message)s") % {"message": d.get("message", "")},
    "job.cancel_requested": lambda d: _("Cancel asked by %(who)s") % {"who": d.get("by", "")},
    "job.cancelled": lambda d: _("Cancelled by %(who)s before it started") % {"who": d.get("by", "")},
    "job.requeued": _requeued,
    "job.ended": _ended,
}
