"""Runs the system's tools, with bounded time and readable failures."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import IO, Any

from portal.sandbox.errors import SandboxError

TOOLS = {
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "podman": "podman",
    "runc": "runc",
    "ip": "iproute2",
    "tc": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "gcc": "gcc libc6-dev",
    "openssl": "openssl",
    "busybox": "busybox-static",
}


def require_root() -> None:
    """Raise SandboxError unless this process is root."""
    if os.geteuid() != 0:
        raise SandboxError(
            "the sandbox needs root: it makes namespaces, links and cgroups. Everything else of Berth does not."
        )


def require_tools(names: Sequence[str] = tuple(TOOLS)) -> None:
    """Raise SandboxError that names the missing Debian packages and the line that installs them."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = {TOOLS[name] for name in names if shutil.which(name, path=path) is None}
    if missing:
        packages = " ".join(sorted(missing))
        raise SandboxError(f"missing packages; run: apt-get install -y --no-install-recommends {packages}")


def run(
    argv: Sequence[str],
    *,
    input_text: str | None = None,
    input_file: IO[bytes] | None = None,
    timeout_s: float = 30,
    check: bool = True,
) -> str:
    """Run a tool and return its standard output; raise SandboxError with its last words when it fails."""
    try:
        given: dict[str, Any] = {"stdin": input_file} if input_file else {"input": input_text or ""}
        done: subprocess.CompletedProcess[str] = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False, **given
        )
    except FileNotFoundError as error:
        raise SandboxError(f"{argv[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise SandboxError(f"`{' '.join(argv[:4])}` gave no answer within {timeout_s:g} s") from error
    if check and done.returncode != 0:
        words = (done.stderr or done.stdout).strip()[-800:]
        raise SandboxError(f"`{' '.join(argv)}` failed ({done.returncode}): {words}")
    return done.stdout


def wait_until(condition: Callable[[], bool], *, timeout_s: float, pause_s: float = 0.01) -> bool:
    """Poll a condition until it holds or the time is up; return whether it held."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_s)
    return True
