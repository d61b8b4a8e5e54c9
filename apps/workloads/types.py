"""What a person asks for, checked in one place, and what other apps may know of jobs."""

import dataclasses
import datetime as dt
import re
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from apps.core.errors import InvalidInput

GIB = 1024
DAY_S = 86_400

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
_IMAGE = re.compile(r"^[a-z0-9]([a-z0-9._:/@-]|__){0,253}[A-Za-z0-9]([A-Za-z0-9._-]*)$")
_ENV_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")
_SHA256 = re.compile(r"^[0-9a-f]{64}$")


@dataclasses.dataclass(frozen=True)
class InputFile:
    """A stored file that the container sees read-only below /berth/in."""

    path: str
    sha256: str
    size: int = 0


@dataclasses.dataclass(frozen=True)
class JobSpec:
    """A job as its user wrote it. Memory in MiB, CPU in thousandths, times in seconds; `gpus` are whole ones."""

    name: str
    image: str
    command: tuple[str, ...]
    env: dict[str, str] = dataclasses.field(default_factory=dict)
    gpus: int = 1
    gpu_model: str = ""
    gpu_memory_mib: int = 0
    cpu_milli: int = 1000
    memory_mib: int = 1 * GIB
    shm_mib: int = 64
    time_limit_s: int = DAY_S
    max_retries: int = 0
    files: tuple[InputFile, ...] = ()

    def problems(self) -> dict[str, str]:
        """Returns what is wrong, by field; empty when the spec is good."""
        errors = _text_problems(self)
        for field, low, high, unit in _RANGES:
            value = getattr(self, field)
            if not low <= value <= high:
                errors[field] = f"Give a whole number from {low} to {high}{unit}."
        if self.shm_mib > self.memory_mib and "memory_mib" not in errors:
            errors["shm_mib"] = "Shared memory counts into the memory: give at most memory_mib."
        return errors

    def checked(self) -> "JobSpec":
        """Returns itself, or raises InvalidInput that names every wrong field at once."""
        errors = self.problems()
        if errors:
            raise InvalidInput("The job can't be submitted with these values.", errors=errors)
        return self


_RANGES = (
    ("gpus", 0, 64, ""),
    ("gpu_memory_mib", 0, 4 * 1024 * GIB, " MiB"),
    ("cpu_milli", 100, 1_024_000, " (1000 is one core)"),
    ("memory_mib", 32, 64 * 1024 * GIB, " MiB"),
    ("shm_mib", 1, 64 * 1024 * GIB, " MiB"),
    ("time_limit_s", 1, 90 * DAY_S, " seconds"),
    ("max_retries", 0, 100, ""),
)


def _text_problems(spec: JobSpec) -> dict[str, str]:
    errors = {}
    if not _NAME.match(spec.name):
        errors["name"] = (
            "Use letters, digits, dots, hyphens and underscores, beginning with a letter or digit; at most 63."
        )
    if not _IMAGE.match(spec.image) or "://" in spec.image or len(spec.image) > 255:
        errors["image"] = _image_problem(spec.image)
    if not spec.command or sum(len(part) for part in spec.command) > 65_536 or any("\0" in p for p in spec.command):
        errors["command"] = 'Give the command as a list of words, such as ["python", "train.py"]; at most 64 KiB.'
    bad = [name for name in spec.env if not _ENV_NAME.match(name)]
    if bad:
        errors["env"] = f"Not a name of an environment variable: {bad[0][:40]!r}."
    elif sum(len(k) + len(v) for k, v in spec.env.items()) > 131_072 or any("\0" in v for v in spec.env.values()):
        errors["env"] = "The environment may have at most 128 KiB, without NUL characters."
    wrong = [file for file in spec.files if not _good_file(file)]
    if len(spec.files) > 1000 or wrong:
        named = f" This one has not: {wrong[0].path[:80]!r}." if wrong else ""
        errors["files"] = (
            f"Each file needs a relative path without '..' and the SHA-256 of an uploaded file; at most 1000.{named}"
        )
    return errors


def _image_problem(image: str) -> str:
    """Says what is wrong with an image's name, not only that something is."""
    example = "Give it such as docker.io/library/python:3.12."
    if not image:
        return f"An image is missing. {example}"
    if "://" in image:
        return f"Leave out {image.partition('://')[0][:20]}://. {example}"
    if len(image) > 255:
        return f"The name is longer than 255 characters. {example}"
    strange = next((c for c in image if not (c.isascii() and (c.isalnum() or c in "._:/@-"))), "")
    if strange:
        return f"The character {strange!r} can't be in an image's name. {example}"
    if image[0].isupper():
        return f"A name begins with a small letter: {image[0].lower() + image[1:60]}? {example}"
    return f"The name may not begin or end with {image[0] if not image[0].isalnum() else image[-1]!r}. {example}"


def _good_file(file: InputFile) -> bool:
    parts = file.path.split("/")
    fine = 0 < len(file.path) <= 255 and "\0" not in file.path and all(part not in ("", ".", "..") for part in parts)
    return fine and bool(_SHA256.match(file.sha256))


@dataclasses.dataclass(frozen=True)
class EndInfo:
    """How an attempt ended by the node's own record; `ran_ns` by its monotonic clock."""

    reason: str
    ran_ns: int = 0
    exit_code: int | None = None
    signal: str = ""
    detail: str = ""
    source: str = "node"


@dataclasses.dataclass(frozen=True)
class AttemptView:
    """One try at a job, for display."""

    id: uuid.UUID
    no: int
    state: str
    node_name: str
    end_reason: str
    end_detail: str
    exit_code: int | None
    signal: str
    created_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    gpu_uuids: tuple[str, ...]
    log_bytes: int
    log_sha256: str
    log_truncated: bool
    outputs_bytes: int
    outputs_sha256: str
    progress: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class JobView:
    """A job for display; `env` names only, never values."""

    id: uuid.UUID
    tenant_id: uuid.UUID
    created_by: str
    created_by_id: uuid.UUID | None
    spec: JobSpec
    state: str
    result: str
    seq: int
    pending_reason: str
    pending_detail: Mapping[str, Any]
    end_reason: str
    end_detail: str
    cancel_requested_at: dt.datetime | None
    created_at: dt.datetime
    state_changed_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    attempts: tuple[AttemptView, ...]
    gpu_seconds: Decimal | None = None

    @property
    def attempt(self) -> AttemptView | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def shown_state(self) -> str:
        """The state, or the result once it has ended: one word for badges and tables."""
        return self.result or self.state


@dataclasses.dataclass(frozen=True)
class Placement:
    """A decision to carry out: this job on these GPUs of this node."""

    job_id: uuid.UUID
    node_id: uuid.UUID
    node_name: str
    gpu_ids: tuple[uuid.UUID, ...]
    why: str = ""


@dataclasses.dataclass(frozen=True)
class PendingJob:
    """A waiting job as the scheduler sees it."""

    id: uuid.UUID
    tenant_id: uuid.UUID
    gpus: int
    gpu_model: str
    gpu_memory_mib: int
    cpu_milli: int
    memory_mib: int
    submitted_at: dt.datetime
    pending_reason: str
    pending_detail: Mapping[str, Any]
