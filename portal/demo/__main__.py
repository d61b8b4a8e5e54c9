"""Runs the demo; `ONCE=1` (or --once) ends after the job with 0 when it succeeded, else 1 with the reason."""

import argparse
import os
import signal
import sys
import time

from portal import embedded
from portal.env import EnvError, load
from portal.sandbox import SandboxError
from portal.supervisor import Report, State, Supervisor, SupervisorError, processes


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--once", action="store_true", default=os.environ.get("ONCE") == "1", help="end after the job")
    options = parser.parse_args()
    try:
        return run(once=options.once)
    except (EnvError, SupervisorError, SandboxError, embedded.EmbeddedError) as error:
        print(f"\nThe demo stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nThe demo was interrupted.", file=sys.stderr)
        return 130


def run(*, once: bool) -> int:
    """Starts the processes and nodes, runs the job, and waits for Ctrl-C unless `once`."""
    began = time.monotonic()
    say(began, "starting PostgreSQL, Redis, web, relay, workers and mail sink")
    env, table = processes(load().with_free_port())
    supervisor = Supervisor(env, table, changed=lambda report: _tell(began, report))
    signal.signal(signal.SIGTERM, lambda *_: supervisor.request_stop())
    with supervisor:
        from portal.demo.story import Story  # needs Django's settings, and they the servers' addresses

        story = Story(env, say=lambda text: say(began, text))
        try:
            story.prepare()
            reason = story.train()
            if reason:
                print(f"\nThe job did not succeed: {reason}", file=sys.stderr)
            story.tell()
            if not once and not reason:
                print("\nCtrl-C stops everything.", flush=True)
                signal.signal(signal.SIGINT, lambda *_: supervisor.request_stop())
                supervisor.wait()
            return 1 if reason else 0
        finally:
            story.end()


def say(began: float, text: str) -> None:
    """Prints a line with the seconds since the start."""
    print(f"[{time.monotonic() - began:5.1f} s] {text}", flush=True)


def _tell(began: float, report: Report) -> None:
    if report.state in (State.FAILED, State.BACKOFF):
        say(began, f"{report.name}: {report.state.value} ({report.last_exit})")


if __name__ == "__main__":
    sys.exit(main())
