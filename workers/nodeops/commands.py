"""Command lines for nodes."""

from __future__ import annotations

import re

from workers.nodeops.quoting import as_root, quote

AGENT_HOME = "/var/lib/berth"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_VERSION = re.compile(r"[0-9a-f]{12}")
_NONCE = re.compile(r"[0-9a-f]{8,64}")
_SHA256 = re.compile(r"[0-9a-f]{64}")

# The system's own Python first: pyenv and its like put slow or old ones in front.
FIND_PYTHON = (
    "for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 "
    "/usr/libexec/platform-python none; do "
    '[ "$python" != none ] && "$python" -I -S -c "import sys; sys.exit(sys.version_info < (3, 8))" 2>/dev/null '
    "&& break; done"
)


def attach_command(version: str, nonce: str, *, home: str = AGENT_HOME) -> str:
    """The command of a link: find a Python, hand the channel to the agent's daemon, start it where needed."""
    if not _VERSION.fullmatch(version) or not _NONCE.fullmatch(nonce):
        raise ValueError("a version has 12 hexadecimal digits and a nonce 8 to 64")
    script = (
        f"PATH={_PATH}; export PATH; {FIND_PYTHON}; "
        'if [ "$python" = none ]; then echo "no Python 3.8 or later on this node" >&2; exit 3; fi; '
        'exec "$python" -I -S -B "$1/agent/$2.pyz" attach --home "$1" --nonce "$3"'
    )
    return as_root(script, home, version, nonce)


def file_path(sha256: str, *, home: str = AGENT_HOME) -> str:
    """Where the agent expects an input file; Transport.put it there before attempt_start."""
    if not _SHA256.fullmatch(sha256):
        raise ValueError("a SHA-256 has 64 hexadecimal digits")
    return f"{home}/files/{sha256}"


def agent_path(version: str, *, home: str = AGENT_HOME) -> str:
    """Where an agent of a version lies."""
    if not _VERSION.fullmatch(version):
        raise ValueError("a version has 12 hexadecimal digits")
    return f"{home}/agent/{version}.pyz"


def file_digest_command(path: str) -> str:
    """Print the SHA-256 of a file, nothing when it is absent; on a line of its own, whatever the login shell said."""
    return as_root('echo; [ ! -f "$1" ] || sha256sum "$1"', path)


def keep_two_agents_command(version: str, *, home: str = AGENT_HOME) -> str:
    """Delete all agents but this version and the newest other one."""
    script = (
        'cd "$1/agent" && touch "$2.pyz" && ls -t | grep -E "^[0-9a-f]{12}[.]pyz$" | tail -n +3 '
        '| while read -r name; do rm -f "$name"; done'
    )
    return as_root(script, home, version)


def forget_links_command(*, home: str = AGENT_HOME) -> str:
    """Let a portal with lower link tokens take this node over (a new installation, a restored database)."""
    return as_root('rm -f "$1/record/link_token"', home)


def add_key_command(public_line: str) -> str:
    """Add one line to the login user's authorized_keys unless it is there."""
    script = (
        'umask 077; mkdir -p "$HOME/.ssh" && touch "$HOME/.ssh/authorized_keys" && '
        '{ grep -qxF -e "$0" "$HOME/.ssh/authorized_keys" || '
        '{ [ -z "$(tail -c 1 "$HOME/.ssh/authorized_keys")" ] || echo >> "$HOME/.ssh/authorized_keys"; '
        'printf "%s" "$0" >> "$HOME/.ssh/authorized_keys"; echo >> "$HOME/.ssh/authorized_keys"; }; }'
    )
    return f"exec /bin/sh -c {quote(script)} {quote(public_line)}"


def script_command() -> str:
    """Run the /bin/sh script that comes on stdin, as the login user."""
    return "exec /bin/sh -s"
