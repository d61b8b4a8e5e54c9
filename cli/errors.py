"""Failures that are told to the person in plain lines, each with its exit code."""

from collections.abc import Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """What the shell sees; documented in docs/cli.md."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_SIGNED_IN = 3
    NOT_FOUND = 4
    UNREACHABLE = 5
    INTERRUPTED = 130


class CliError(Exception):
    """A failure with one plain line, further lines (fields) and what to do next."""

    exit_code = ExitCode.FAILED

    def __init__(self, message: str, *, lines: Sequence[str] = (), hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.lines = list(lines)
        self.hint = hint

    def report(self) -> str:
        """Returns the text for stderr."""
        hint = [self.hint] if self.hint else []
        return "\n".join([f"berth: {self.message}", *(f"  {line}" for line in [*self.lines, *hint])])


class InputError(CliError):
    """The command line, a file or an input was wrong."""

    exit_code = ExitCode.USAGE


class NotSignedInError(CliError):
    """There is no sign-in, or it has ended."""

    exit_code = ExitCode.NOT_SIGNED_IN


class UnreachableError(CliError):
    """The portal did not answer."""

    exit_code = ExitCode.UNREACHABLE


class ApiError(CliError):
    """The portal refused; `status` and `code` are those of its problem document."""

    def __init__(self, message: str, *, status: int, code: str = "", lines: Sequence[str] = (), hint: str = "") -> None:
        super().__init__(message, lines=lines, hint=hint)
        self.status = status
        self.code = code
        if status in (403, 404):
            self.exit_code = ExitCode.NOT_FOUND
        elif status in (400, 422):
            self.exit_code = ExitCode.USAGE
        elif status in (502, 503, 504):
            self.exit_code = ExitCode.UNREACHABLE
