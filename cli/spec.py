"""The job as its user wrote it: a YAML file, flags, or both, made into what the API takes."""

import difflib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli import units
from cli.errors import InputError

Spec = dict[str, Any]

FIELDS = (
    "name", "image", "command", "env", "gpus", "gpu_model", "gpu_memory_mib", "cpus", "memory_mib", "shm_mib",
    "time_limit_s", "max_retries", "files",
)  # fmt: skip
NEEDED = {
    "name": "--name NAME",
    "image": "--image IMAGE",
    "command": "the command after --, such as: -- python train.py",
}
MEANT = {
    "memory": "memory_mib", "mem": "memory_mib", "ram": "memory_mib", "shm": "shm_mib", "shm_size": "shm_mib",
    "gpu": "gpus", "gpu_count": "gpus", "gpu_memory": "gpu_memory_mib", "gpu_type": "gpu_model", "cpu": "cpus",
    "time": "time_limit_s", "time_limit": "time_limit_s", "timeout": "time_limit_s", "retries": "max_retries",
    "environment": "env", "cmd": "command", "args": "command", "file": "files", "inputs": "files",
}  # fmt: skip
QUANTITIES: dict[str, Callable[[Any], int]] = {
    "gpu_memory_mib": units.mib,
    "memory_mib": units.mib,
    "shm_mib": units.mib,
    "time_limit_s": units.seconds,
}


@dataclass(frozen=True)
class Upload:
    """A file of this machine that the container shall see below /berth/in at `path`."""

    local: Path
    path: str


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns a hint such as `Did you mean 'gpus'?`, or nothing."""
    names = list(known)
    near = MEANT.get(word.lower()) or next(iter(difflib.get_close_matches(word, names, n=1)), "")
    return f"Did you mean {near!r}?" if near in names else ""


def read_file(path: Path) -> tuple[Spec, list[Upload]]:
    """Reads a job file; returns its fields and the local files it names (relative to its folder).

    Raises InputError that names every unknown field.
    """
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        document = yaml.safe_load(text)
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid YAML.", lines=str(error).splitlines()) from None
    if not isinstance(document, dict):
        raise InputError(f"{path} must hold fields such as name:, image: and command:.")
    _refuse_unknown(document, FIELDS, str(path))
    problems = []
    spec = dict(document)
    for key, read in QUANTITIES.items():
        try:
            if key in spec:
                spec[key] = read(spec[key])
        except ValueError as error:
            problems.append(f"{key}: {error}")
    uploads = [] if problems else _uploads_of(spec, path)
    problems += _shape_problems(spec)
    if problems:
        raise InputError(f"{path} has wrong values.", lines=problems)
    if "env" in spec:
        spec["env"] = {str(key): _env_text(value) for key, value in spec["env"].items()}
    if "command" in spec:
        spec["command"] = [str(word) for word in spec["command"]]
    return spec, uploads


def _refuse_unknown(document: Mapping[Any, Any], known: Iterable[str], where: str) -> None:
    names = list(known)
    unknown = [str(key) for key in document if key not in names]
    if unknown:
        lines = [f"{key}: unknown field. {did_you_mean(key, names)}".rstrip() for key in unknown]
        raise InputError(f"{where} has fields that Berth does not know.", lines=lines)


def _shape_problems(spec: Spec) -> list[str]:
    problems = []
    command = spec.get("command", [])
    if not isinstance(command, list) or any(isinstance(word, dict | list) for word in command):
        problems.append('command: write it as a list of words, such as ["python", "train.py"].')
    env = spec.get("env", {})
    if not isinstance(env, dict) or any(isinstance(value, dict | list) for value in env.values()):
        problems.append("env: write it as NAME: value, one below the other.")
    return problems


def _env_text(value: Any) -> str:
    """Returns what the person wrote: YAML reads `true` and nothing as other things than text."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _uploads_of(spec: Spec, path: Path) -> list[Upload]:
    """Takes entries with `local` out of `files`; those with a `sha256` were uploaded before and stay."""
    entries = spec.get("files") or []
    if not isinstance(entries, list) or any(not isinstance(entry, dict) for entry in entries):
        raise InputError(f"{path} has wrong values.", lines=["files: write a list of entries with local: and path:."])
    uploads, kept = [], []
    for entry in entries:
        _refuse_unknown(entry, ("path", "sha256", "local"), f"{path}, files")
        if "local" in entry:
            local = path.parent / str(entry["local"])
            uploads.append(Upload(local=local, path=str(entry.get("path") or local.name)))
        else:
            kept.append(entry)
    if "files" in spec:
        spec["files"] = kept
    return uploads


def upload_of(text: str) -> Upload:
    """Reads `--file LOCAL[:PATH]`; without PATH the file keeps its name."""
    local, colon, path = text.rpartition(":")
    if not colon:
        local, path = text, Path(text).name
    if not local or not path:
        raise InputError(f"--file {text!r} is not LOCAL:PATH.", hint="Such as --file data/train.npz:train.npz")
    return Upload(local=Path(local).expanduser(), path=path)


def env_of(pairs: Iterable[str], file: Path | None, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Reads `--env-file`, then `--env K=V` (or `K`: the value that it has here) above it."""
    env = _env_file(file) if file else {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals and key not in environ:
            raise InputError(f"--env {key}: there is no such variable here.", hint=f"Give it as --env {key}=VALUE.")
        env[key] = value if equals else environ[key]
    return env


def _env_file(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} can't be read: {error}.") from None
    env = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, value = line.strip().removeprefix("export ").partition("=")
        if not equals:
            raise InputError(f"{path}, line {number}: write it as NAME=value.")
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
        env[key.strip()] = value[1:-1] if quoted else value
    return env


def merged(base: Spec, flags: Spec) -> Spec:
    """Returns the file's fields with the flags above them; environments and files are joined."""
    spec = base | {key: value for key, value in flags.items() if value is not None}
    if base.get("env") and flags.get("env"):
        spec["env"] = base["env"] | flags["env"]
    if base.get("files") and flags.get("files"):
        spec["files"] = base["files"] + flags["files"]
    return spec


def require_complete(spec: Spec) -> None:
    """Raises InputError that names what is missing before anything is sent."""
    missing = [f"{field}: give {how}" for field, how in NEEDED.items() if not spec.get(field)]
    if missing:
        hint = "Or write a file: berth job submit -f job.yaml"
        raise InputError("The job is not complete.", lines=missing, hint=hint)
