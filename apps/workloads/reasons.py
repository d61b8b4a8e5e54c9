"""The words for why a job waits or ended: what happened, why, and what to do next."""

import dataclasses

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.workloads.choices import EndReason, PendingReason
from apps.workloads.types import JobView


@dataclasses.dataclass(frozen=True)
class Words:
    """A sentence about a job and the next step that helps (may be empty)."""

    text: str
    next_step: str


def pending_words(job: JobView) -> Words | None:
    """Returns why a waiting job waits, in the active language; None for a job that does not wait."""
    if not job.pending_reason:
        return None
    numbers = job.pending_detail
    makers = {
        PendingReason.SUBMITTED: _submitted,
        PendingReason.REQUEUED: _requeued,
        PendingReason.NO_NODES: _no_nodes,
        PendingReason.NEVER_FITS: _never_fits,
        PendingReason.GPUS_BUSY: _gpus_busy,
        PendingReason.ROOM_BUSY: _room_busy,
        PendingReason.BEHIND_OTHERS: _behind_others,
        PendingReason.TENANT_GPU_QUOTA: _tenant_gpu_quota,
    }
    return makers[PendingReason(job.pending_reason)](job, _Numbers(numbers))


class _Numbers:
    """Numbers of a reason by name, 0 when absent (an older row may lack one)."""

    def __init__(self, values: object) -> None:
        self._values = values if isinstance(values, dict) else {}

    def __getattr__(self, name: str) -> int:
        value = self._values.get(name, 0)
        return value if isinstance(value, int) else 0


def _submitted(job: JobView, n: _Numbers) -> Words:
    return Words(_("Waiting for the scheduler to look at it."), _("This takes less than a second."))


def _requeued(job: JobView, n: _Numbers) -> Words:
    return Words(_("Back in the queue, waiting for the scheduler to look at it."), _("This takes less than a second."))


def _no_nodes(job: JobView, n: _Numbers) -> Words:
    return Words(_("Waiting: no node is in service."), _("Ask an operator to add a node or to uncordon one."))


def _asked(job: JobView) -> str:
    spec = job.spec
    if not spec.gpus:
        return _("%(cpus)g cores and %(memory)d MiB of memory") % {
            "cpus": spec.cpu_milli / 1000,
            "memory": spec.memory_mib,
        }
    kind = spec.gpu_model or _("GPU")
    room = _(" with %(memory)d MiB or more") % {"memory": spec.gpu_memory_mib} if spec.gpu_memory_mib else ""
    return f"{spec.gpus} × {kind}{room}"


def _never_fits(job: JobView, n: _Numbers) -> Words:
    asked = _asked(job)
    if job.spec.gpus and n.gpus_most_on_a_node < job.spec.gpus:
        text = _("No node in service could ever run this: it asks for %(asked)s, and the most on one node is %(most)d.")
        step = _("Submit it again with at most %(most)d GPUs.")
        if job.spec.gpu_model:
            step = _("Submit it again with at most %(most)d GPUs, or with another GPU model.")
        if n.gpus_most_on_a_node == 0:
            step = _("Submit it again with a GPU model that is on offer, or with less GPU memory.")
        numbers = {"asked": asked, "most": n.gpus_most_on_a_node}
        return Words(text % numbers, step % numbers if "%(" in step else step)
    text = _("No node in service could ever run this: it asks for %(cpus)g cores and %(memory)d MiB of memory;"
             " the largest node has %(most_cpus)g cores, and the most memory of a node is"
             " %(most_memory)d MiB.")  # fmt: skip
    numbers = {
        "cpus": job.spec.cpu_milli / 1000, "memory": job.spec.memory_mib,
        "most_cpus": n.cpu_milli_most / 1000, "most_memory": n.memory_mib_most,
    }  # fmt: skip
    return Words(text % numbers, _("Submit it again with less CPU or memory."))


def _gpus_busy(job: JobView, n: _Numbers) -> Words:
    text = _("Waiting for %(asked)s on one node: the most free on one node is %(most)d, %(all)d are free in all.")
    ahead = _ahead(n)
    step = (
        _("It starts by itself when GPUs free up. Fewer GPUs may start sooner.")
        if job.spec.gpus > 1
        else _("It starts by itself when a GPU frees up.")
    )
    return Words((text % {"asked": _asked(job), "most": n.gpus_free_most_on_a_node, "all": n.gpus_free}) + ahead, step)


def _ahead(n: _Numbers) -> str:
    if not n.ahead:
        return ""
    return " " + ngettext("%(count)d job is ahead.", "%(count)d jobs are ahead.", n.ahead) % {"count": n.ahead}


def _room_busy(job: JobView, n: _Numbers) -> Words:
    text = _(
        "Waiting for CPU or memory: the GPUs it needs are free, but not with %(cpus)g cores"
        " and %(memory)d MiB of memory."
    )
    numbers = {"cpus": job.spec.cpu_milli / 1000, "memory": job.spec.memory_mib}
    return Words(
        text % numbers + _ahead(n), _("It starts by itself when room frees up. Less CPU or memory may start sooner.")
    )


def _behind_others(job: JobView, n: _Numbers) -> Words:
    text = ngettext(
        "Waiting behind %(count)d earlier job that needs the same GPUs.",
        "Waiting behind %(count)d earlier jobs that need the same GPUs.",
        n.ahead,
    )
    return Words(text % {"count": n.ahead}, _("It starts by itself after them."))


def _tenant_gpu_quota(job: JobView, n: _Numbers) -> Words:
    text = _("Waiting for the tenant's GPU quota: it asks for %(asked)d, %(left)d are left.")
    step = _("It starts by itself when a job of the tenant ends. An operator can raise the quota.")
    return Words(text % {"asked": job.spec.gpus, "left": n.gpus_left}, step)


def end_words(job: JobView) -> Words | None:
    """Returns how an ended job ended, in the active language; None for a job that has not ended."""
    if not job.end_reason:
        return None
    attempt = job.attempt
    detail = f" ({job.end_detail})" if job.end_detail else ""
    code = attempt.exit_code if attempt and attempt.exit_code is not None else 0
    signal = attempt.signal if attempt else ""
    node = attempt.node_name if attempt else ""
    words = {
        EndReason.EXITED: (_("Finished with exit code 0."), ""),
        EndReason.EXIT_CODE: (
            _("The command ended with exit code %(code)d.") % {"code": code},
            _("The last lines of the log usually say why."),
        ),
        EndReason.SIGNAL: (
            _("The command was ended by signal %(signal)s.") % {"signal": signal},
            _("The last lines of the log usually say why."),
        ),
        EndReason.OUT_OF_MEMORY: (
            _("The command used more than its %(memory)d MiB of memory and was ended.")
            % {"memory": job.spec.memory_mib},
            _("Clone it with more memory, or lower the batch size or the number of data workers."),
        ),
        EndReason.TIME_LIMIT: (
            _("The time limit of %(seconds)d s was reached.") % {"seconds": job.spec.time_limit_s},
            _("Clone it with a longer time limit, or save checkpoints and go on from them."),
        ),
        EndReason.CANCELLED: (_("Cancelled") + detail + ".", _("Requeue it to run it again.")),
        EndReason.USER_FAULT: (
            _("The job could not start: %(detail)s") % {"detail": job.end_detail or _("see its events")},
            _("Check image and command, then clone it."),
        ),
        EndReason.NODE_FAULT: (
            _("Node %(node)s could not run it: %(detail)s")
            % {"node": node, "detail": job.end_detail or _("see its events")},
            _("This was not your job's fault. Requeue it; the node page shows the fault to operators."),
        ),
        EndReason.NODE_LOST: (
            _("Node %(node)s was lost while the job ran") % {"node": node} + detail + ".",
            _("This was not your job's fault. Requeue it, or give it retries so that this happens by itself."),
        ),
    }
    text, step = words[EndReason(job.end_reason)]
    return Words(text, step)
