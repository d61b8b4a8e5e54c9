"""`python -m portal.supervisor`: start everything, stay until Ctrl-C or SIGTERM, stop everything."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from portal.embedded import EmbeddedError
from portal.env import EnvError, load
from portal.supervisor import ProcessSpec, Report, State, Supervisor, SupervisorError, processes, select

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
QUIET = (State.STARTING, State.WAITING)


def main(arguments: list[str] | None = None) -> int:
    """Run until asked to stop; exit code 1 with a plain message when it can't start."""
    options = _parser().parse_args(arguments)
    try:
        env, table = processes(load(), nodes=options.nodes)
        chosen = select(table, options.only, options.without)
        if options.list:
            _print_table(chosen)
            return 0
        supervisor = Supervisor(env, chosen, changed=_tell, echo=["mail"])
        for number in STOP_SIGNALS:
            signal.signal(number, lambda *_: supervisor.request_stop())
        with supervisor:
            print(f"Berth runs: {env.public_url}  (berth-ctl ps; Ctrl-C stops)", flush=True)
            supervisor.wait()
            print("stopping …", flush=True)
    except (EnvError, EmbeddedError, SupervisorError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m portal.supervisor", description=__doc__)
    parser.add_argument("--only", type=_names, default=[], metavar="A,B", help="run these processes only")
    parser.add_argument("--without", type=_names, default=[], metavar="A,B", help="leave these processes out")
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="number of node workers (default 1)")
    parser.add_argument("--list", action="store_true", help="print the table and end")
    return parser


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _print_table(table: Sequence[ProcessSpec]) -> None:
    for spec in table:
        print(f"{spec.name:10} {' '.join(spec.argv) or '(embedded server)'}")


def _tell(report: Report) -> None:
    if report.state not in QUIET:
        took = f" after {report.uptime_seconds:.1f} s" if report.state == State.READY and report.uptime_seconds else ""
        detail = f" ({report.detail})" if report.detail else ""
        print(f"{report.name:10} {report.state}{took}{detail}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
