"""The one place where shell text for nodes is quoted."""

from __future__ import annotations

import re

# The login shell may be csh or fish, so it only ever sees plain quoted words; /bin/sh does the work.
_AS_ROOT = 'if [ "$(id -u)" = 0 ]; then exec /bin/sh -c "$0" sh "$@"; else exec sudo -n /bin/sh -c "$0" sh "$@"; fi'
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_SPECIAL = re.compile(r"([!'\\])")


def quote(word: str) -> str:
    """One word for sh, csh and fish alike; raises ValueError for NUL and line breaks, which csh can't quote."""
    if any(character in word for character in "\0\n\r"):
        raise ValueError("a word for a node's shell holds no NUL and no line break")
    if _PLAIN.fullmatch(word):
        return word
    # csh expands ! inside single quotes and fish reads \ there: these and ' itself stand outside, behind a backslash.
    pieces = ("\\" + piece if _SPECIAL.fullmatch(piece) else f"'{piece}'" for piece in _SPECIAL.split(word) if piece)
    return "".join(pieces) or "''"


def as_root(script: str, *arguments: str) -> str:
    """A command line for a one-line /bin/sh script with $1, $2…; through `sudo -n` where the login user is not root."""
    return " ".join(["exec", "/bin/sh", "-c", quote(_AS_ROOT), *(quote(word) for word in (script, *arguments))])


def upload_command(path: str, temporary: str, mode: int) -> str:
    """Write stdin to a temporary file and print its size; leftovers of broken uploads go after a day."""
    script = (
        'umask 077; folder=${1%/*}; mkdir -p "$folder" && cat > "$2" && chmod "$3" "$2" && sync "$2"'
        ' && find "$folder" -maxdepth 1 -name \'.*.part\' -mmin +1440 -delete; echo; wc -c < "$2"'
    )
    return as_root(script, path, temporary, f"{mode:04o}")


def rename_command(path: str, temporary: str) -> str:
    """Put an uploaded file in its place."""
    return as_root('mv -f "$2" "$1"', path, temporary)


def discard_command(temporary: str) -> str:
    """Delete what a failed upload left."""
    return as_root('rm -f "$1"', temporary)
