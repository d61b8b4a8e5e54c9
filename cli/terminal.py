"""Makes a log safe for a terminal: text, colours and cursor moves pass, what reprograms the terminal does not.

A job's output is foreign text. Left alone it could set the window's title, change the character set, or make the
terminal type answers into the shell. Bytes for pipes and files never pass through here.
"""

import re

LONGEST = 4096

_SEQUENCE = re.compile(
    rb"\x1b\[[0-?]*[ -/]*(?P<csi>[@-~])"  # control sequence
    rb"|\x1b[\]PX^_].*?(?:\x1b\\|\x07)"  # operating system command, device control and other strings
    rb"|\x1b[ -/]*[0-Z\\`-~]"  # two-character escapes, character sets
    rb"|[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]",
    re.DOTALL,
)
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07]*|[ -/]*)\Z", re.DOTALL)
_HARMLESS = frozenset(b"mABCDEFGHJKX")


class TerminalFilter:
    """Filters a byte stream that comes in pieces."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """Returns what may be shown; an unfinished sequence is held back for the next piece."""
        data = self._held + piece
        self._held = b""
        unfinished = _UNFINISHED.search(data, _last_escape(data))
        if unfinished and len(data) - unfinished.start() <= LONGEST:
            self._held = data[unfinished.start() :]
            data = data[: unfinished.start()]
        return _SEQUENCE.sub(_kept, data)


def _last_escape(data: bytes) -> int:
    """Returns where the search for an unfinished sequence begins: strings are bounded, so not far from the end."""
    start = max(0, len(data) - LONGEST)
    found = data.find(b"\x1b", start)
    return found if found >= 0 else len(data)


def _kept(found: re.Match[bytes]) -> bytes:
    final = found["csi"]
    private = found[0][2:3] in (b"?", b">", b"=", b"<")
    return found[0] if final and final[0] in _HARMLESS and not private else b""
