"""Checks of an attempt's spec: the portal is trusted, its bugs are not."""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Tuple

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,512}")
_GPU = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,250}")
_SHA = re.compile(r"[0-9a-f]{64}")
_LABEL = re.compile(r"[A-Za-z0-9._-]{1,100}")

# Each with its types, least and greatest value.
_NUMBERS: Mapping[str, Tuple[Any, float, float]] = {
    "cpus": ((int, float), 0.01, 4096),
    "memory_mib": (int, 8, 1 << 30),
    "shm_mib": (int, 1, 1 << 30),
    "time_limit_s": ((int, float), 0, 10**9),
    "stop_grace_s": ((int, float), 0, 10**6),
    "log_limit_bytes": (int, 0, 1 << 50),
    "outputs_limit_bytes": (int, 0, 1 << 50),
}


class ArgsError(Exception):
    """An operation's arguments make no sense; the message names the member."""


def attempt_id(args: Dict[str, Any]) -> str:
    """The checked attempt id; raises ArgsError."""
    value = args.get("attempt_id")
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ArgsError("attempt_id must be a lower-case UUID")
    return value


def sha256(args: Dict[str, Any]) -> str:
    """The checked digest; raises ArgsError."""
    return _text(args.get("sha256"), _SHA, "sha256")


def image(args: Dict[str, Any]) -> str:
    """The checked image reference; raises ArgsError."""
    return _text(args.get("image"), _IMAGE, "image")


def attempt_spec(args: Dict[str, Any]) -> Dict[str, Any]:
    """The checked spec of attempt_start, with nothing else in it; raises ArgsError."""
    spec: Dict[str, Any] = {"attempt_id": attempt_id(args), "image": image(args)}
    for name in ("job_id", "tenant_id"):
        spec[name] = _text(args.get(name), _LABEL, name)
    for name, (kinds, least, greatest) in _NUMBERS.items():
        value = args.get(name)
        if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= greatest:
            raise ArgsError(f"{name} must be a number from {least} to {greatest}")
        spec[name] = value
    if args.get("network", "none") != "none":
        raise ArgsError("network must be none")
    spec["command"] = [_no_nul(word, "command") for word in _list(args, "command")]
    spec["gpus"] = [_text(gpu, _GPU, "gpus") for gpu in _list(args, "gpus")]
    spec["env"] = _environment(args.get("env"))
    spec["files"] = [_file(entry) for entry in _list(args, "files")]
    return spec


def _text(value: Any, pattern: Any, name: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ArgsError(f"{name} has a value that is not allowed: {str(value)[:80]!r}")
    return value


def _list(args: Dict[str, Any], name: str) -> Any:
    value = args.get(name)
    if not isinstance(value, list):
        raise ArgsError(f"{name} must be a list")
    return value


def _no_nul(value: Any, name: str) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ArgsError(f"{name} must hold strings without NUL")
    return value


def _environment(env: Any) -> Dict[str, str]:
    if not isinstance(env, dict):
        raise ArgsError("env must be an object")
    return {_text(name, _VARIABLE, "env"): _no_nul(value, "env") for name, value in env.items()}


def _file(entry: Any) -> Dict[str, Any]:
    if not isinstance(entry, dict):
        raise ArgsError("files must hold objects")
    path, size = entry.get("path"), entry.get("size")
    if not isinstance(path, str) or not path or len(path) > 1000 or "\0" in path or path.startswith("/"):
        raise ArgsError("a file's path must be relative")
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise ArgsError(f"a file's path must stay below /berth/in: {path[:80]!r}")
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise ArgsError("a file's size must be a number of bytes")
    return {"path": path, "sha256": sha256(entry), "size": size}
