"""`berth-ctl`: looks at and steers the processes of a running Berth."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from portal.embedded.locks import wait_until_free
from portal.env import Env, EnvError, load
from portal.supervisor.control import ask
from portal.supervisor.logfile import follow, tail
from portal.supervisor.spec import SupervisorError

STOP_WAIT_SECONDS = 120.0


def main(arguments: list[str] | None = None) -> int:
    """Run one command; exit code 1 with a plain message when it fails."""
    options = _parser().parse_args(arguments)
    try:
        env = load({**os.environ, "BERTH_DATA_DIR": options.data} if options.data else None)
        options.run(env, options)
    except (EnvError, SupervisorError) as error:
        print(error, file=sys.stderr)
        return 1
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="berth-ctl", description=__doc__)
    parser.add_argument("--data", metavar="DIR", help="data folder (default: BERTH_DATA_DIR or .berth)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    ps = commands.add_parser("ps", help="list the processes")
    ps.add_argument("--json", action="store_true", help="as JSON")
    ps.set_defaults(run=_ps)

    logs = commands.add_parser("logs", help="show a process's output")
    logs.add_argument("name")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until Ctrl-C")
    logs.add_argument("-n", "--lines", type=int, default=100, help="so many last lines (default 100)")
    logs.set_defaults(run=_logs)

    restart = commands.add_parser("restart", help="stop a process in order and start it again")
    restart.add_argument("name")
    restart.set_defaults(run=_restart)

    kill = commands.add_parser("kill", help="send a signal to a process (it is started again)")
    kill.add_argument("name")
    kill.add_argument("--signal", default="KILL", help="name or number (default KILL)")
    kill.set_defaults(run=_kill)

    stop = commands.add_parser("stop", help="stop everything and wait for it")
    stop.set_defaults(run=_stop)
    return parser


def _ps(env: Env, options: argparse.Namespace) -> None:
    rows: list[dict[str, Any]] = ask(env, {"do": "ps"})["processes"]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'NAME':12} {'STATE':10} {'PID':>8} {'UP':>9} {'RESTARTS':>8}  LAST EXIT")
    for row in rows:
        up = "-" if row["uptime_seconds"] is None else f"{row['uptime_seconds']:.0f} s"
        note = row["detail"] or row["last_exit"]
        print(f"{row['name']:12} {row['state']:10} {row['pid'] or '-':>8} {up:>9} {row['restarts']:>8}  {note}")


def _logs(env: Env, options: argparse.Namespace) -> None:
    path = _log_path(env, options.name)
    for line in tail(path, options.lines):
        print(line)
    if options.follow:
        for text in follow(path):
            sys.stdout.write(text)
            sys.stdout.flush()


def _log_path(env: Env, name: str) -> Path:
    path = env.logs_dir / f"{name}.log"
    if "/" in name or not path.is_file():
        known = sorted(found.stem for found in env.logs_dir.glob("*.log"))
        raise SupervisorError(f"No log of {name!r}; there are: {', '.join(known) or 'none'}.")
    return path


def _restart(env: Env, options: argparse.Namespace) -> None:
    ask(env, {"do": "restart", "name": options.name})


def _kill(env: Env, options: argparse.Namespace) -> None:
    if not ask(env, {"do": "kill", "name": options.name, "signal": _signal(options.signal)})["ok"]:
        raise SupervisorError(f"{options.name} does not run at the moment.")


def _signal(text: str) -> int:
    name = text.upper()
    try:
        return signal.Signals(int(name)) if name.isdigit() else signal.Signals[f"SIG{name.removeprefix('SIG')}"]
    except (KeyError, ValueError):
        raise SupervisorError(f"Unknown signal {text!r}: use a name such as TERM or KILL, or a number.") from None


def _stop(env: Env, _options: argparse.Namespace) -> None:
    ask(env, {"do": "stop"})
    if not wait_until_free(env.data_dir / "locks" / "supervisor.lock", STOP_WAIT_SECONDS):
        raise SupervisorError(f"Berth has not stopped within {STOP_WAIT_SECONDS:.0f} s: look at `berth-ctl ps`.")
    print("stopped")


if __name__ == "__main__":
    sys.exit(main())
