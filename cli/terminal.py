"""Makes a log safe for a terminal: text, colours and cursor moves pass, what reprograms the terminal does not.

A job's output is foreign text. Left alone it could set the window's title, change the character set, or make the
terminal type answers into the shell. Bytes for pipes and files never pass through here.
"""

import re

LONGEST = 4096

_TOKEN = re.compile(
    rb"\x1b\[[0-?]*[ -/]*(?P<csi>[@-~])"  # control sequence
    rb"|\x1b[\]PX^_](?:(?!\x1b\\|\x07).){0,4096}(?:\x1b\\|\x07)"  # commands to the system and other strings
    rb"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"  # two-character escapes, character sets
    rb"|(?P<open>\x1b(?:\[[0-?]*[ -/]*|[\]PX^_](?:(?!\x1b\\|\x07).){0,4096}|[ -/]*)\Z)"  # may go on in the next piece
    rb"|\x1b[\]PX^_]?"  # broken or endless: its introducer alone is dropped
    rb"|[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]",
    re.DOTALL,
)
_HARMLESS = frozenset(b"mABCDEFGHJKX")


class TerminalFilter:
    """Filters a byte stream that comes in pieces."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """Returns what may be shown; an unfinished sequence is held back for the next piece."""
        data, self._held = self._held + piece, b""
        shown, at = [], 0
        for found in _TOKEN.finditer(data):
            shown.append(data[at : found.start()])
            at = found.end()
            if found["open"] is not None and at - found.start() <= LONGEST:
                self._held = found[0]
            elif _harmless(found):
                shown.append(found[0])
        shown.append(data[at:])
        return b"".join(shown)


def _harmless(found: re.Match[bytes]) -> bool:
    final = found["csi"]
    return final is not None and final[0] in _HARMLESS and found[0][2:3] not in (b"?", b">", b"=", b"<")
