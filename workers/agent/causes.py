"""What a container runtime's words mean, podman's and docker's: whose fault it is and what to do."""

from __future__ import annotations

import re
from typing import NamedTuple

from workers.agent.process import Outcome


class Fault(NamedTuple):
    """Why something failed, and whose fault it is: user or node."""

    fault: str
    code: str
    message: str


_LONGEST = 400

# The job's own program as runc and crun quote it, once or twice: the user's text must not pass for the runtime's words.
_PROGRAM = (
    (re.compile(r'exec: "(?:[^"\\]|\\.)*":'), "exec:"),
    (re.compile(r'exec: \\"(?:[^"\\]|\\\\(?:\\.|[^\\]))*\\":'), "exec:"),
    (re.compile(r"exec: stat .*: (?=no such file|permission denied|not a directory)"), "exec: "),
    (re.compile(r"executable file [`'].*[`'] not found"), "executable file not found"),
)

# The first that matches counts.
_FAULTS = (
    (
        r"unresolvable CDI devices|could not select device driver",
        Fault("node", "gpu_missing", "the container runtime can't give out the GPUs: run nvidia-ctk cdi generate"),
    ),
    (r"no space left on device|disk quota exceeded", Fault("node", "disk_full", "the node's disk is full")),
    (
        (
            r"unable to retrieve OCI runtime error|fork/exec /|nvidia-container-cli: |nvidia-container-runtime"
            r"|cannot connect to the docker daemon"
        ),
        Fault("node", "runtime_broken", "the node's container runtime is broken: run its preflight"),
    ),
    (
        (
            r"executable file not found|no such file or directory: OCI|command that was not found"
            r"|exec: (no such file or|not a) directory"
        ),
        Fault("user", "command_not_found", "no such command in the image"),
    ),
    (
        r"exec: permission denied|permission denied: OCI|exec format error",
        Fault("user", "command_not_executable", "the command can't be executed"),
    ),
    (
        r"toomanyrequests|too many requests|pull rate limit",
        Fault("node", "registry_limit", "the registry allows no more pulls from this node for now: try again later"),
    ),
    (
        r"x509: ",
        Fault("node", "registry_certificate", "the node does not trust the registry's certificate: install its CA"),
    ),
    (
        r"no image found in (image index|manifest list) for|no matching manifest for",
        Fault("user", "image_architecture", "the image is not made for this node's processor"),
    ),
    (
        r"invalid reference format",
        Fault("user", "image_invalid", "the image's name is wrong: write registry/name:tag in lower case"),
    ),
    (
        r"unauthorized|authentication required|(?<!permission )denied: ",
        Fault("user", "image_denied", "the registry refuses this image without a sign-in"),
    ),
    (
        (
            r"image not known|(manifest|name) unknown|manifest for .* not found|repository .* not found|no such image"
            r"|did not resolve to an alias"
        ),
        Fault("user", "image_not_found", "no such image"),
    ),
    (
        (
            r"no such host|connection refused|i/o timeout|TLS handshake|connection reset|network is unreachable"
            r"|no route to host|context deadline exceeded|Client\.Timeout"
        ),
        Fault("node", "registry_unreachable", "the registry does not answer from this node"),
    ),
)


def explain(outcome: Outcome, otherwise: str) -> Fault:
    """Tell the user's fault from the node's by the runtime's words; `otherwise` is the code for words nobody knows."""
    words = outcome.stderr.strip()
    last = words.splitlines()[-1][-_LONGEST:] if words else "no words"
    if outcome.rc is None:
        return Fault("node", "runtime_timeout", last)
    said = words
    for pattern, without in _PROGRAM:
        said = pattern.sub(without, said)
    for sign, fault in _FAULTS:
        if re.search(sign, said, re.IGNORECASE):
            return fault._replace(message=f"{fault.message} ({last})")
    if outcome.rc in (126, 127):
        return Fault("user", "command_not_found", last)
    return Fault("node", otherwise, last)


def name_taken(outcome: Outcome) -> bool:
    """True when a container of this name is there already."""
    return outcome.rc == 125 and "already in use" in outcome.stderr


def image_absent(outcome: Outcome) -> bool:
    """True when a start failed because the image must be pulled first."""
    words = outcome.stderr.lower()
    return outcome.rc == 125 and ("image not known" in words or "no such image" in words)
