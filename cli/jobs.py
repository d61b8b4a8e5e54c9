"""What the job verbs share: finding a job by id or name, its words, its exit code."""

import uuid
from collections.abc import Callable
from typing import Any

from cli.client import Client
from cli.errors import ApiError, ExitCode, InputError
from cli.output import Column, Row, ago_text, bytes_text, duration_text, mib_text, moment, time_text

Job = dict[str, Any]
PROGRESS = {
    "preparing": "The node prepares the start",
    "pulling": "Pulling the image",
    "created": "The container is made",
}
"""What an attempt is at while its job starts; a running job's state says it all."""


def find(client: Client, reference: str, *, among: Callable[[Job], bool] | None = None) -> Job:
    """Returns the job with this id or exact name: the newest of that name.

    With `among` (for acts that can't be taken back) several fitting jobs of one name are refused.
    """
    try:
        return dict(client.get(f"/jobs/{uuid.UUID(reference)}"))
    except ValueError:
        pass
    rows, _ = client.pages("/jobs", limit=200, search=reference)
    named = [job for job in rows if job["name"] == reference]
    fitting = [job for job in named if among is None or among(job)]
    if among is not None and len(fitting) > 1:
        lines = [f"{job['id']}  {job['shown_state']}, {ago_text(job['created_at'])}" for job in fitting[:10]]
        raise InputError(f"{len(fitting)} jobs are called {reference!r}.", lines=lines, hint="Give one by its id.")
    if not named:
        raise ApiError(f"There is no job {reference!r}.", status=404, hint="See what there is: berth job ls --all")
    return dict((fitting or named)[0])


def newest(job: Row) -> dict[str, Any]:
    """Returns the newest attempt, empty when there was none."""
    attempts = job.get("attempts") or [{}]
    return dict(attempts[-1])


def exit_code(job: Job) -> ExitCode:
    """Returns 0 for a job that succeeded, 1 for one that ended otherwise."""
    return ExitCode.OK if job["result"] == "succeeded" else ExitCode.FAILED


def words(job: Job) -> list[str]:
    """Returns why the job waits or how it ended, and the next step; for a running job what is under way."""
    reason = job.get("waits") or job.get("end")
    if reason:
        return [reason["text"], reason["next_step"]]
    attempt = newest(job)
    where = f"On {attempt['node']}." if attempt.get("node") else ""
    return [where, progress_text(attempt.get("progress") or {})]


def progress_text(progress: dict[str, Any]) -> str:
    """Returns an attempt's progress in words, such as `Pulling the image: 3 layers so far.`"""
    said = PROGRESS.get(str(progress.get("state") or ""), "")
    done, total = progress.get("done"), progress.get("total")
    if progress.get("state") == "pulling" and done:
        return (
            f"{said}: {done} of {total} layers." if total else f"{said}: {done} layer{'' if done == 1 else 's'} so far."
        )
    return str(progress.get("message") or "") or (f"{said}." if said else "")


def data_text(data: dict[str, Any]) -> str:
    """Returns an event's members, such as `attempt: 1, node: gpu-01`."""
    shown = {
        key: value for key, value in data.items() if value not in ("", None) and not isinstance(value, dict | list)
    }
    return ", ".join(f"{key}: {value}" for key, value in shown.items())


def ending(job: Job) -> str:
    """Returns one or two sentences on how a job ended."""
    began, ended = moment(job["started_at"]), moment(job["ended_at"])
    ran = f" after {duration_text((ended - began).total_seconds())}" if began and ended else ""
    said = " ".join(word for word in words(job) if word)
    cut = " The log was cut at its limit." if newest(job).get("log_truncated") else ""
    return f"Job {job['name']} {job['shown_state']}{ran}. {said}{cut}".rstrip()


COLUMNS: list[Column] = [
    ("NAME", lambda job: str(job["name"])),
    ("STATE", lambda job: str(job["shown_state"])),
    ("GPUS", lambda job: str(job["spec"]["gpus"])),
    ("NODE", lambda job: str(newest(job).get("node") or "")),
    ("SUBMITTED", lambda job: ago_text(job["created_at"])),
    ("ID", lambda job: str(job["id"])),
]


def facts(job: Job) -> list[tuple[str, str]]:
    """Returns what `job show` tells a person."""
    spec, attempt = job["spec"], newest(job)
    said = [word for word in words(job) if word]
    return [
        ("Job", job["name"]),
        ("Id", job["id"]),
        ("State", job["shown_state"]),
        ("Why" if job.get("waits") else "End" if job.get("end") else "Where", said[0] if said else ""),
        ("Next step" if job.get("waits") or job.get("end") else "Progress", said[1] if len(said) > 1 else ""),
        ("Node", attempt.get("node") or ""),
        ("GPUs", _gpus(spec, attempt)),
        ("CPU", f"{spec['cpus']:g} core{'' if spec['cpus'] == 1 else 's'}"),
        ("Memory", f"{mib_text(spec['memory_mib'])}, of it shared {mib_text(spec['shm_mib'])}"),
        ("Time limit", duration_text(spec["time_limit_s"])),
        ("Image", spec["image"]),
        ("Command", command_text(spec["command"])),
        ("Environment", ", ".join(spec.get("env_names") or [])),
        ("Files", ", ".join(file["path"] for file in spec.get("files") or [])),
        ("Submitted", f"{time_text(job['created_at'])} by {job['created_by']}"),
        ("Started", time_text(job["started_at"])),
        ("Ended", time_text(job["ended_at"])),
        ("Attempts", _attempts(job)),
        ("Log", _log(attempt)),
        ("Outputs", bytes_text(attempt["outputs_bytes"]) if attempt.get("outputs_bytes") else ""),
        ("GPU time", f"{float(job['gpu_seconds']):.1f} GPU-seconds" if job.get("gpu_seconds") is not None else ""),
    ]


def command_text(command: list[str]) -> str:
    """Returns a command as one could type it."""
    import shlex

    return shlex.join(command)


def _gpus(spec: dict[str, Any], attempt: dict[str, Any]) -> str:
    if not spec["gpus"]:
        return "none"
    model = f" × {spec['gpu_model']}" if spec.get("gpu_model") else ""
    memory = f" with {mib_text(spec['gpu_memory_mib'])} or more" if spec.get("gpu_memory_mib") else ""
    given = f" ({', '.join(attempt['gpu_uuids'])})" if attempt.get("gpu_uuids") else ""
    return f"{spec['gpus']}{model}{memory}{given}"


def _attempts(job: Job) -> str:
    attempts = job.get("attempts") or []
    if len(attempts) < 2:
        return ""
    return ", ".join(f"{a['no']} on {a['node']}: {a['end_reason'] or a['state']}" for a in attempts)


def _log(attempt: dict[str, Any]) -> str:
    if not attempt:
        return ""
    cut = ", cut at its limit" if attempt.get("log_truncated") else ""
    return f"{bytes_text(attempt['log_bytes'])}{cut}"
