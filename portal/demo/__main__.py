"""Runs the demo; `ONCE=1` (or --once) ends after the job with 0 when it succeeded, else 1 with the reason."""

import argparse
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from portal import embedded
from portal.demo.room import Room
from portal.env import Env, EnvError, load
from portal.sandbox import SandboxError, SandboxNode
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
    given = load()
    env, table = processes(given.with_free_port())
    if env.http_port != given.http_port:
        say(began, f"port {given.http_port} is taken, using {env.http_port}")
    supervisor = Supervisor(env, table, changed=lambda report: _tell(began, report))
    signal.signal(signal.SIGTERM, lambda *_: supervisor.request_stop())
    room = Room(env, say=lambda text: say(began, text))
    try:
        with ThreadPoolExecutor(1) as pool:
            nodes = pool.submit(room.open)
            with supervisor:
                return _story(env, room, nodes.result(), supervisor, began=began, once=once)
    finally:
        room.close()


def _story(env: Env, room: Room, nodes: list[SandboxNode], supervisor: Supervisor, *, began: float, once: bool) -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    import django

    django.setup()  # only now: the settings need the servers' addresses
    from portal.demo.story import DemoError, Story

    story = Story(env, image=room.image, say=lambda text: say(began, text))
    try:
        story.prepare(nodes)
        reason = story.train()
    except DemoError as error:
        print(f"\nThe demo stopped: {error}", file=sys.stderr)
        return 1
    if reason:
        print(f"\nThe job did not succeed: {reason}", file=sys.stderr)
    story.tell()
    if once:
        print("\nEverything is stopped again; `make demo` keeps it up.", flush=True)
    elif not reason:
        print("\nCtrl-C stops everything.", flush=True)
        signal.signal(signal.SIGINT, lambda *_: supervisor.request_stop())
        supervisor.wait()
    return 1 if reason else 0


def say(began: float, text: str) -> None:
    """Prints a line with the seconds since the start."""
    print(f"[{time.monotonic() - began:5.1f} s] {text}", flush=True)


def _tell(began: float, report: Report) -> None:
    if report.state in (State.FAILED, State.BACKOFF):
        say(began, f"{report.name}: {report.state} ({report.last_exit})")


if __name__ == "__main__":
    sys.exit(main())
