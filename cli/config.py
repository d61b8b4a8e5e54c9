"""Where the CLI keeps its sign-ins: one JSON file that only its owner can read."""

import contextlib
import dataclasses
import json
import os
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cli.errors import InputError

DEFAULT_PROFILE = "default"


@dataclasses.dataclass(frozen=True)
class Profile:
    """One portal and one person's sign-in there; `expires_at` is Unix time of the access token's end."""

    url: str = ""
    email: str = ""
    tenant: str = ""
    ca_file: str = ""
    access: str = ""
    refresh: str = ""
    expires_at: float = 0.0


def config_path(environ: Mapping[str, str]) -> Path:
    """Returns the file's place: BERTH_CONFIG, else below XDG_CONFIG_HOME or ~/.config."""
    if environ.get("BERTH_CONFIG"):
        return Path(environ["BERTH_CONFIG"]).expanduser()
    base = environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "berth" / "config.json"


class ConfigStore:
    """Reads and changes the file; a change is atomic and safe against other `berth` processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mutex = threading.RLock()
        self._depth = 0

    def profile(self, name: str = "") -> tuple[str, Profile]:
        """Returns the profile of that name, or the one in use; an empty profile when there is none."""
        data = self._read()
        name = name or str(data.get("current") or DEFAULT_PROFILE)
        values = data.get("profiles", {}).get(name, {})
        known = {field.name for field in dataclasses.fields(Profile)}
        return name, Profile(**{key: value for key, value in values.items() if key in known})

    def names(self) -> list[str]:
        """Returns the names of all profiles."""
        return sorted(self._read().get("profiles", {}))

    def save(self, name: str, profile: Profile, *, make_current: bool = False) -> None:
        """Writes one profile; the first one written becomes the one in use."""
        with self.locked():
            data = self._read()
            data.setdefault("profiles", {})[name] = dataclasses.asdict(profile)
            if make_current or not data.get("current"):
                data["current"] = name
            self._write(data)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds other processes and threads off; may be entered again by the thread that holds it."""
        with self._mutex:
            self._depth += 1
            lock = self._take_file() if self._depth == 1 else None
            try:
                yield
            finally:
                self._depth -= 1
                if lock is not None:
                    os.close(lock)

    def _take_file(self) -> int:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self.path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        _lock_exclusively(lock)
        return lock

    def _read(self) -> dict[str, Any]:
        try:
            text = self.path.read_text(encoding="utf-8")
            if stat.S_IMODE(self.path.stat().st_mode) & 0o077:
                self.path.chmod(0o600)  # an editor or a copy may have widened it
            data = json.loads(text)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise InputError(
                f"{self.path} can't be read: {error}.", hint="Mend or remove it, then sign in again: berth login"
            ) from None
        if not isinstance(data, dict):
            raise InputError(f"{self.path} is not a Berth configuration.", hint="Remove it, then: berth login")
        return data

    def _write(self, data: dict[str, Any]) -> None:
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=".config-")  # 0600 from the start
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(data, file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self.path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _lock_exclusively(descriptor: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: two processes that refresh at once may have to sign in again
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX)
