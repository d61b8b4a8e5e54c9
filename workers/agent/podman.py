"""Podman's command lines and what its answers mean: pure functions, a second runtime is a second such class."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from workers.agent.process import Command, Outcome

_SECRET_BYTES = 32 * 1024
_DROPPED_CAPABILITIES = ("SETFCAP", "SETPCAP")
_PIDS_LIMIT = 4096
_GREATEST_PID = 1 << 22

ENDED = ("exited", "stopped", "dead")


class Container(NamedTuple):
    """What the runtime says of a container."""

    id: str
    status: str
    pid: int
    exit_code: int
    oom: bool
    started_at: str
    finished_at: str
    stop_signal: str


class Mounts(NamedTuple):
    """The files of one start."""

    inputs: str
    outputs: str
    env_file: str
    pid_file: str
    id_file: str
    conmon: str


def split_environment(env: Dict[str, str]) -> Tuple[Dict[str, str], Dict[str, str]]:
    """(values for an env file, values that only a secret can carry: newlines, a final carriage return, very long)."""
    plain: Dict[str, str] = {}
    secret: Dict[str, str] = {}
    for name, value in env.items():
        special = "\n" in value or value.endswith("\r") or len(value.encode()) > _SECRET_BYTES
        (secret if special else plain)[name] = value
    # Void keeps a legacy NVIDIA hook from adding GPUs that the image or the tenant asks for; CDI adds the right ones.
    plain["NVIDIA_VISIBLE_DEVICES"] = "void"
    secret.pop("NVIDIA_VISIBLE_DEVICES", None)
    return plain, secret


def env_file(plain: Dict[str, str]) -> bytes:
    """The env file's bytes; podman takes each line after the first = as it stands."""
    return "".join(f"{name}={value}\n" for name, value in sorted(plain.items())).encode()


def container_name(attempt: str) -> str:
    """The name that makes a second container of an attempt impossible."""
    return f"berth-{attempt}"


class Podman:
    """Facts to command lines."""

    program = "podman"

    def start(self, spec: Dict[str, Any], mounts: Mounts, secrets: Sequence[str], epoch: str) -> Command:
        """Create and start in one command."""
        options = self._options(spec, mounts, secrets, epoch)
        return Command((self.program, "--conmon", mounts.conmon, "run", "-d", *options), brief=True)

    def create(self, spec: Dict[str, Any], mounts: Mounts, secrets: Sequence[str], epoch: str) -> Command:
        """Create only."""
        options = self._options(spec, mounts, secrets, epoch)
        return Command((self.program, "--conmon", mounts.conmon, "create", *options))

    def start_created(self, attempt: str, conmon: str) -> Command:
        """Start a container that was created."""
        return Command((self.program, "--conmon", conmon, "start", container_name(attempt)))

    def inspect(self, attempt: str) -> Command:
        """Ask for the truth about a container."""
        return Command((self.program, "container", "inspect", container_name(attempt)))

    def remove(self, attempt: str) -> Command:
        """Remove a container, running or not; absent is fine."""
        return Command((self.program, "rm", "--force", "--ignore", "--time", "0", container_name(attempt)))

    def pull(self, image: str) -> Command:
        """Pull an image."""
        return Command((self.program, "pull", "--", image))

    def image_exists(self, image: str) -> Command:
        """rc 0 when the image is here, 1 when not."""
        return Command((self.program, "image", "exists", "--", image))

    def secret_create(self, name: str, value: str) -> Command:
        """Keep one environment value that an env file can't carry."""
        return Command((self.program, "secret", "create", name, "-"), stdin=value.encode())

    def secret_remove(self, names: Sequence[str]) -> Command:
        """Remove secrets."""
        return Command((self.program, "secret", "rm", *names))

    def version(self) -> Command:
        """Versions of podman, its runtime and conmon as JSON."""
        return Command((self.program, "info", "--format", "json"))

    def _options(self, spec: Dict[str, Any], mounts: Mounts, secrets: Sequence[str], epoch: str) -> List[str]:
        attempt = spec["attempt_id"]
        options = ["--name", container_name(attempt), "--pull=never", "--log-driver=passthrough"]
        options += ["--network=none", "--security-opt=no-new-privileges", f"--pids-limit={_PIDS_LIMIT}"]
        options += [f"--cap-drop={name}" for name in _DROPPED_CAPABILITIES]
        memory = f"{spec['memory_mib']}m"
        options += [f"--cpus={spec['cpus']:g}", f"--memory={memory}", f"--memory-swap={memory}"]
        options += [
            f"--shm-size={spec['shm_mib']}m",
            "--pidfile",
            mounts.pid_file,
            "--cidfile",
            mounts.id_file,
            "--env-file",
            mounts.env_file,
        ]
        options += [f"--device=nvidia.com/gpu={uuid}" for uuid in spec["gpus"]]
        options += [f"--volume={mounts.inputs}:/berth/in:ro", f"--volume={mounts.outputs}:/berth/out"]
        for name in secrets:
            options += ["--secret", f"{secret_name(attempt, name)},type=env,target={name}"]
        labels = {"attempt": attempt, "job": spec["job_id"], "tenant": spec["tenant_id"], "epoch": epoch}
        options += [f"--label=berth.{key}={value}" for key, value in labels.items()]
        return [*options, spec["image"], *spec["command"]]


def secret_name(attempt: str, variable: str) -> str:
    """A secret's name, found again without a list."""
    return f"berth-{attempt}-{variable}"


def parse_inspect(outcome: Outcome) -> Optional[Container]:
    """A container's state, None when there is none; raises ValueError for an answer nobody can read."""
    if outcome.rc != 0:
        if re.search(r"no such (object|container)", outcome.stderr, re.IGNORECASE):
            return None
        raise ValueError(f"the runtime can't say how the container is: {outcome.stderr.strip()[-300:]}")
    try:
        values = json.loads(outcome.stdout)
    except RecursionError:
        raise ValueError("the runtime's inspect answer is nested too deep") from None
    found = values[0] if isinstance(values, list) and values else None
    if not isinstance(found, dict) or not isinstance(found.get("State"), dict):
        raise ValueError("the runtime's inspect answer has no container")
    return _container(found, found["State"])


def _container(found: Dict[str, Any], state: Dict[str, Any]) -> Container:
    status = _word(state.get("Status")).lower()
    exit_code = _number(state.get("ExitCode"), 255)
    if exit_code is None and status in ENDED:
        raise ValueError("the runtime's inspect answer has no exit code: the job may have failed or not")
    config = found.get("Config")
    return Container(
        id=_word(found.get("Id")),
        status=status,
        pid=_number(state.get("Pid"), _GREATEST_PID) or 0,
        exit_code=exit_code or 0,
        oom=state.get("OOMKilled") is True,
        started_at=_word(state.get("StartedAt")),
        finished_at=_word(state.get("FinishedAt")),
        stop_signal=_word(config.get("StopSignal")) if isinstance(config, dict) else "",
    )


def _word(value: Any) -> str:
    """A text, or a number as text (podman writes the stop signal as one); empty for all else."""
    known = isinstance(value, (str, int)) and not isinstance(value, bool)
    return str(value) if known else ""


def _number(value: Any, greatest: int) -> Optional[int]:
    """A whole number from 0 to `greatest`; None for all else, so that the unknown is never taken for 0."""
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= greatest
    return int(value) if known else None
