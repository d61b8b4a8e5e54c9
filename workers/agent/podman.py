"""Podman's command lines and what its answers mean: pure functions, a second runtime is a second such class."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from workers.agent.process import Command, Outcome

_SECRET_BYTES = 32 * 1024
_DROPPED_CAPABILITIES = ("SETFCAP", "SETPCAP")
_PIDS_LIMIT = 4096


class Fault(NamedTuple):
    """Why something failed, and whose fault it is: user or node."""

    fault: str
    code: str
    message: str


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


# Podman's words, and what they mean: the first that matches counts.
_FAULTS = (
    (r"unresolvable CDI devices", Fault("node", "gpu_missing", "a GPU has no CDI device: run nvidia-ctk cdi generate")),
    (r"no space left on device|disk quota exceeded", Fault("node", "disk_full", "the node's disk is full")),
    (
        r"executable file not found|no such file or directory: OCI|command that was not found",
        Fault("user", "command_not_found", "no such command in the image"),
    ),
    (
        r"permission denied: OCI|exec format error",
        Fault("user", "command_not_executable", "the command can't be executed"),
    ),
    (
        r"unauthorized|authentication required|denied: ",
        Fault("user", "image_denied", "the registry refuses this image without a sign-in"),
    ),
    (
        r"image not known|(manifest|name) unknown|repository .* not found|no such image|did not resolve to an alias",
        Fault("user", "image_not_found", "no such image"),
    ),
    (
        r"no such host|connection refused|i/o timeout|TLS handshake|connection reset|network is unreachable",
        Fault("node", "registry_unreachable", "the registry does not answer from this node"),
    ),
)


def explain(outcome: Outcome, otherwise: str) -> Fault:
    """Tell the user's fault from the node's by podman's words; `otherwise` is the code for words nobody knows."""
    words = outcome.stderr.strip()
    last = words.splitlines()[-1][-400:] if words else "no words"
    if outcome.rc is None:
        return Fault("node", "runtime_timeout", last)
    for pattern, fault in _FAULTS:
        if re.search(pattern, words):
            return fault._replace(message=f"{fault.message} ({last})")
    if outcome.rc in (126, 127):
        return Fault("user", "command_not_found", last)
    return Fault("node", otherwise, last)


def name_taken(outcome: Outcome) -> bool:
    """True when a container of this name is there already."""
    return outcome.rc == 125 and "already in use" in outcome.stderr


def image_absent(outcome: Outcome) -> bool:
    """True when a start failed because the image must be pulled first."""
    return outcome.rc == 125 and ("image not known" in outcome.stderr or "no such image" in outcome.stderr)


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
    values = json.loads(outcome.stdout)
    if not isinstance(values, list) or not values or not isinstance(values[0], dict):
        raise ValueError("the runtime's inspect answer has no container")
    state = values[0].get("State") or {}
    return Container(
        id=str(values[0].get("Id", "")),
        status=str(state.get("Status", "")),
        pid=int(state.get("Pid") or 0),
        exit_code=int(state.get("ExitCode") or 0),
        oom=bool(state.get("OOMKilled")),
        started_at=str(state.get("StartedAt", "")),
        finished_at=str(state.get("FinishedAt", "")),
        stop_signal=str((values[0].get("Config") or {}).get("StopSignal", "")),
    )
