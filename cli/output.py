"""How answers are shown: tables and facts for people, JSON, YAML and names for programs."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

Row = Mapping[str, Any]
Column = tuple[str, Callable[[Row], str]]

STYLES = {
    "pending": "bright_black", "placed": "blue", "starting": "blue", "running": "green", "stopping": "yellow",
    "succeeded": "green", "failed": "red", "lost": "magenta", "cancelled": "bright_black",
    "enrolling": "blue", "ready": "green", "cordoned": "yellow", "draining": "yellow", "unreachable": "magenta",
    "down": "red", "maintenance": "yellow", "retired": "bright_black", "ok": "green", "missing": "red",
}  # fmt: skip


class Format(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def colours(stream: Any, environ: Mapping[str, str] | None = None) -> bool:
    """Says whether colours are wanted: a terminal, and no NO_COLOR."""
    environ = os.environ if environ is None else environ
    return bool(stream.isatty()) and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def console(stream: Any) -> Any:
    """Returns a rich console; without a terminal nothing is coloured, wrapped or cut."""
    from rich.console import Console

    terminal = bool(stream.isatty())
    return Console(
        file=stream,
        no_color=not colours(stream),
        force_terminal=terminal,
        width=None if terminal else 10_000,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )


def dump(value: Any, form: Format) -> str:
    """Returns the value as JSON or YAML text, line feed included."""
    if form is Format.YAML:
        import yaml

        return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def print_rows(rows: Sequence[Row], columns: Sequence[Column], form: Format, *, name: str) -> None:
    """Prints a list; `name` is the field that `-o name` prints."""
    if form is Format.NAME:
        sys.stdout.write("".join(f"{row[name]}\n" for row in rows))
    elif form is not Format.TABLE:
        sys.stdout.write(dump(list(rows), form))
    elif rows:
        _table(rows, columns)


def _table(rows: Sequence[Row], columns: Sequence[Column]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for position, (title, _) in enumerate(columns):
        table.add_column(title, no_wrap=position == 0 or title == "ID", overflow="fold")
    for row in rows:
        table.add_row(*(Text(text, style=STYLES.get(text, "")) for text in (cell(row) for _, cell in columns)))
    _print_without_padding(table)


def print_facts(value: Row, facts: Sequence[tuple[str, str]], form: Format, *, name: str) -> None:
    """Prints one object: its facts as `Label  text` lines (empty ones left out), or the object itself."""
    if form is Format.NAME:
        sys.stdout.write(f"{value[name]}\n")
        return
    if form is not Format.TABLE:
        sys.stdout.write(dump(dict(value), form))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in facts:
        if text:
            table.add_row(label, Text(text, style=STYLES.get(text, "")))
    _print_without_padding(table)


def _print_without_padding(table: Any) -> None:
    """Prints a table without the blanks that fill its last column, which would spoil copying and diffs."""
    screen = console(sys.stdout)
    if screen.is_terminal:
        screen.print(table)
        return
    with screen.capture() as capture:
        screen.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def bytes_text(count: float) -> str:
    """Returns a count of bytes in binary units, such as `3.1 MiB`."""
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} TiB"


def mib_text(mib: float) -> str:
    """Returns MiB as MiB or GiB."""
    return f"{mib:.0f} MiB" if mib < 1024 else f"{round(mib / 1024, 1):g} GiB"


def duration_text(seconds: float) -> str:
    """Returns a duration in its two largest units, such as `2 h 5 min`."""
    whole = max(0, int(seconds))
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    first = next((i for i, (count, _) in enumerate(parts) if count), 3)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count) or "0 s"


def moment(text: str | None) -> datetime | None:
    """Returns a timestamp of the API, None when absent."""
    return datetime.fromisoformat(text) if text else None


def ago_text(text: str | None) -> str:
    """Returns how long ago a timestamp was, such as `3 min ago`."""
    at = moment(text)
    return f"{duration_text((datetime.now(UTC) - at).total_seconds())} ago" if at else ""


def time_text(text: str | None) -> str:
    """Returns a timestamp in the local zone, to the second."""
    at = moment(text)
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z") if at else ""
