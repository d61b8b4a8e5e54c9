"""Parks one job at each step, strikes with one fault after the other, and prints what became of each job."""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.kill_matrix import report
from benchmarks.kill_matrix.cell import Wave
from benchmarks.kill_matrix.faults import FAULTS, Fault
from benchmarks.kill_matrix.room import FOLDER, Room, RoomTaken
from benchmarks.kill_matrix.steps import STEPS, WAVES


def main() -> int:
    """Return 0 when no cell deviates, else 1."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    faults = [_at_most(FAULTS[name], options.at_most_s) for name in options.columns]
    try:
        waves = run(faults, options.steps, folder=options.folder, keep=options.keep)
    except RoomTaken as error:
        print(error, file=sys.stderr)
        return 2
    seconds = time.monotonic() - began
    print(report.summary(waves, seconds), flush=True)
    if options.json:
        report.write_json(options.json, waves, seconds)
    if options.markdown:
        report.write_markdown(options.markdown, waves, seconds)
    return 1 if report.exceptions(waves) else 0


def run(faults: Sequence[Fault], steps: Sequence[str], *, folder: Path = FOLDER, keep: bool = False) -> list[Wave]:
    """Run these columns for these steps in an installation of their own, printing each wave as it ends."""
    room = Room(folder)
    waves: list[Wave] = []
    try:
        room.open()
        print(report.header(), flush=True)
        for wave in _waves(room, faults, set(steps)):
            waves.append(wave)
            print("\n".join(report.lines(wave)) + f"\n      ({wave.seconds:.0f} s)", flush=True)
    finally:
        room.close(keep=keep)
    return waves


def _waves(room: Room, faults: Sequence[Fault], steps: set[str]) -> Iterable[Wave]:
    import django  # its settings need the servers' addresses

    django.setup()
    from benchmarks.kill_matrix.people import add_nodes, make_people
    from benchmarks.kill_matrix.waves import run_wave

    add_nodes(room)
    clients = make_people(room, steps)
    for fault in faults:
        for names in WAVES:
            chosen = [name for name in names if name in steps]
            if chosen:
                yield run_wave(room, clients, fault, chosen)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make kill-matrix", description=__doc__)
    parser.add_argument("--columns", type=_names(FAULTS), default=list(FAULTS), help=f"of {','.join(FAULTS)}")
    parser.add_argument("--steps", type=_names(STEPS), default=list(STEPS), help=f"of {','.join(STEPS)}")
    parser.add_argument("--json", type=Path, help="write everything that was found to this file")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument("--at-most-s", type=float, default=3600, help="shorten faults that last longer (for CI)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="the data folder; it is cleared")
    parser.add_argument("--keep", action="store_true", help="leave the data folder with the processes' logs")
    return parser.parse_args()


def _at_most(fault: Fault, seconds: float) -> Fault:
    return dataclasses.replace(fault, lasts_s=min(fault.lasts_s, seconds))


def _names(known: Iterable[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            raise argparse.ArgumentTypeError(f"no {', '.join(unknown) or 'names'}; there are: {', '.join(known)}")
        return names

    return parse


if __name__ == "__main__":
    sys.exit(main())
