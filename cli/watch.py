"""The view while waiting: a moving line on a terminal, one line for each change elsewhere."""

import sys
import time
from collections.abc import Sequence
from typing import Any

from cli.output import STYLES, console, duration_text


class Watch:
    """Shows on stderr where something stands; nothing is left behind on a terminal."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._began = time.monotonic()
        self._state = ""
        self._lines: tuple[str, ...] = ()
        self._screen: Any = None

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *exception: object) -> None:
        self.hide()

    @property
    def elapsed_s(self) -> float:
        """Seconds since waiting began."""
        return time.monotonic() - self._began

    def show(self, state: str, lines: Sequence[str] = ()) -> None:
        """Shows a state, why it is so and what comes next."""
        told = tuple(line for line in lines if line)
        changed = (state, told) != (self._state, self._lines)
        self._state, self._lines = state, told
        if not sys.stderr.isatty():
            if changed:
                sys.stderr.write(f"{self._title}: {': '.join([state, ' '.join(told)]) if told else state}\n")
                sys.stderr.flush()
            return
        self._on_terminal()

    def hide(self) -> None:
        """Takes the moving line away."""
        if self._screen is not None:
            self._screen.stop()
            self._screen = None

    def note(self, text: str) -> None:
        """Leaves a line above the moving one."""
        if self._screen is not None:
            self._screen.console.print(text)
        else:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    def _on_terminal(self) -> None:
        if self._screen is not None:
            return
        from rich.live import Live as Screen
        from rich.spinner import Spinner

        spinner = Spinner("dots")
        self._screen = Screen(
            get_renderable=lambda: self._drawn(spinner),
            console=console(sys.stderr),
            refresh_per_second=8,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._screen.start()

    def _drawn(self, spinner: Any) -> Any:
        from rich.text import Text

        spinner.text = Text.assemble(
            (self._title, "bold"), "  ", (self._state, STYLES.get(self._state, "")), "  ",
            (duration_text(self.elapsed_s), "dim"), *(f"\n  {line}" for line in self._lines),
        )  # fmt: skip
        return spinner
