"""Where the embedded servers keep their data and sockets for one data folder.

Normally everything lies in the data folder. Two limits force other places, and the choice is then written into
`embedded.json` so that it never changes under existing data:
- started as root, with the data folder below one that the server user may not enter (such as /root): the data goes
  to /var/lib/berth/<hash>; parents are never opened;
- a unix socket's path may have 107 bytes: a longer one moves to a private folder under /run (root) or /tmp.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from portal.embedded.errors import EmbeddedError
from portal.embedded.identity import ServerUser, known_server_user, server_user
from portal.env import Env, make_dir

SOCKET_PATH_BYTES = 107
LONGEST_SOCKET_NAME = ".s.PGSQL.5432.lock"
STATE_ROOT = Path("/var/lib/berth")
RECORD = "embedded.json"


@dataclass(frozen=True)
class Layout:
    """Folders of the embedded servers and the user that owns them (None: ourselves)."""

    postgres: Path
    redis: Path
    sockets: Path
    locks: Path
    logs: Path
    user: ServerUser | None


def find(env: Env) -> Layout:
    """Return the layout as recorded, or as it would be chosen; changes nothing."""
    user = known_server_user(env.server_user)
    home = _recorded_home(env) or _choose_home(env, user)
    return _layout(env, home, user)


def settle(env: Env) -> Layout:
    """Return the layout with its folders made, the server user created and the choice recorded."""
    env.make_data_dir()
    user = server_user(env.server_user)
    home = _recorded_home(env)
    if home is None:
        home = _choose_home(env, user)
        _record_home(env, home)
    layout = _layout(env, home, user)
    make_dir(layout.logs, 0o700)
    make_dir(layout.locks, 0o700)
    if home != env.data_dir:
        make_dir(STATE_ROOT, 0o711)
        make_dir(home, 0o711)
    if user is not None and not user.can_enter(home):
        raise EmbeddedError(
            f"The server user {user.name!r} may not enter {home} any more, where this installation's data lies: "
            f"allow it (chmod o+x on {home} and its parents) or move the data."
        )
    own(layout.sockets, user)
    own(layout.redis, user)
    return layout


def own(folder: Path, user: ServerUser | None) -> None:
    """Make a folder that only the servers' user may enter; refuse one that belongs to somebody else."""
    make_dir(folder, 0o700)
    if user is not None:
        os.chown(folder, user.uid, user.gid, follow_symlinks=False)
    found = folder.lstat()
    owner = os.geteuid() if user is None else user.uid
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or stat.S_IMODE(found.st_mode) & 0o077:
        raise EmbeddedError(f"{folder} is not a private folder of uid {owner}: remove it and start again.")


def socket_dir(env: Env, home: Path) -> Path:
    """Return a folder for sockets whose paths stay within the kernel's limit."""
    near = home / "run"
    if len(os.fsencode(near / LONGEST_SOCKET_NAME)) <= SOCKET_PATH_BYTES:
        return near
    return private_place(env)


def private_place(env: Env) -> Path:
    """Return a short folder name of this installation for sockets; whoever makes it checks its owner."""
    if os.geteuid() == 0:
        return Path("/run") / f"berth-{_hash(env)}"
    return Path(tempfile.gettempdir()) / f"berth-{os.geteuid()}-{_hash(env)}"


def _layout(env: Env, home: Path, user: ServerUser | None) -> Layout:
    return Layout(
        postgres=home / "postgres",
        redis=home / "redis",
        sockets=socket_dir(env, home),
        locks=env.data_dir / "locks",
        logs=env.logs_dir,
        user=user,
    )


def _choose_home(env: Env, user: ServerUser | None) -> Path:
    existing = next((path for path in (env.data_dir, *env.data_dir.parents) if path.exists()), Path("/"))
    if user is None or user.can_enter(existing):
        return env.data_dir
    # One that exists belongs to an installation whose data folder was removed: its passwords went with it.
    names = (_hash(env) + (f"-{number}" if number else "") for number in itertools.count())
    return next(STATE_ROOT / name for name in names if not (STATE_ROOT / name).exists())


def _hash(env: Env) -> str:
    return hashlib.sha256(os.fsencode(env.data_dir)).hexdigest()[:12]


def _recorded_home(env: Env) -> Path | None:
    try:
        text = (env.data_dir / RECORD).read_text(encoding="utf-8")
        return env.data_dir / str(json.loads(text)["home"])  # "." inside, an absolute path elsewhere
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbeddedError(f"{env.data_dir / RECORD} cannot be read ({error}): restore it from a backup.") from None


def _record_home(env: Env, home: Path) -> None:
    inside = home == env.data_dir
    temporary = env.data_dir / f"{RECORD}.new"
    temporary.write_text(json.dumps({"home": "." if inside else str(home)}) + "\n", encoding="utf-8")
    temporary.replace(env.data_dir / RECORD)
