"""`python -m portal.embedded start|stop|status`: the servers alone, without the supervisor."""

from __future__ import annotations

import argparse
import sys

from portal import embedded
from portal.env import EnvError, load


def main(arguments: list[str] | None = None) -> int:
    """Run one command; exit code 1 with a plain message when it fails."""
    parser = argparse.ArgumentParser(prog="python -m portal.embedded", description=__doc__)
    parser.add_argument("command", choices=("start", "stop", "status"))
    command = parser.parse_args(arguments).command
    try:
        return {"start": _start, "stop": _stop, "status": _status}[command]()
    except (EnvError, embedded.EmbeddedError) as error:
        print(error, file=sys.stderr)
        return 1


def _start() -> int:
    embedded.start(load())
    return _status()


def _stop() -> int:
    print("stopped" if embedded.stop(load()) else "nothing was running")
    return 0


def _status() -> int:
    for row in embedded.status(load()):
        state = "external" if not row.embedded else f"running (pid {row.pid})" if row.running else "not running"
        print(f"{row.name:9} {state:22} {row.where}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
