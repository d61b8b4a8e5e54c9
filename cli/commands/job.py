"""The verbs of jobs, but for submit and clone."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.commands import submit
from cli.errors import ApiError, CliError, InputError
from cli.output import Column, bytes_text, time_text
from cli.shell import Shell, group, verb

app = group("Submit and follow jobs.")
submit.register(app)

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Id or name; a name means the newest job of it.")]
AttemptOption = Annotated[
    int | None, typer.Option(min=1, metavar="NO", help="Which attempt; the newest if left out.", show_default=False)
]
STATES = ("pending", "placed", "starting", "running", "stopping", "ended", "succeeded", "failed", "cancelled", "lost")


@verb(app, "ls", examples="berth job ls\nberth job ls --state running\nberth job ls --search digits --all -o name")
def job_list(
    shell: Shell,
    state: Annotated[str, typer.Option(help="Only jobs in this state.", show_default=False)] = "",
    search: Annotated[str, typer.Option(help="Only jobs with this in their name.", show_default=False)] = "",
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 50,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
) -> None:
    """List the tenant's jobs, newest first."""
    from cli.jobs import COLUMNS
    from cli.spec import did_you_mean

    if state and state not in STATES:
        hint = did_you_mean(state, STATES) or f"States: {', '.join(STATES)}."
        raise InputError(f"There is no state {state!r}.", hint=hint)
    jobs, more = shell.client.pages("/jobs", limit=None if every else limit, state=state, search=search)
    empty = "No job fits." if state or search else "No jobs yet. Submit one: berth job submit --help"
    shell.rows(jobs, COLUMNS, empty=empty)
    if more:
        shell.note(f"These are the newest {len(jobs)}. See all: berth job ls --all")


@verb(app, "show", examples="berth job show digits\nberth job show digits --json")
def job_show(shell: Shell, job: JobArgument) -> None:
    """Show one job: its state, why it waits or how it ended, and what it was given."""
    from cli.jobs import facts, find

    found = find(shell.client, job)
    if found["id"] != job:  # found by name: a list's rows leave out what costs more, such as GPU-seconds
        found = shell.client.get(f"/jobs/{found['id']}")
    shell.facts(found, facts(found))


LOG_EXAMPLES = """
berth job logs digits
berth job logs -f digits          # until the job ends; exit code 1 when it failed
berth job logs --tail 100 digits
berth job logs digits > log.bin   # the exact bytes
"""


@verb(app, "logs", printing=False, examples=LOG_EXAMPLES)
def job_logs(
    shell: Shell,
    job: JobArgument,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job has ended.")] = False,
    attempt: AttemptOption = None,
    tail: Annotated[
        int | None, typer.Option(min=0, metavar="LINES", help="Begin with the last lines.", show_default=False)
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Exact bytes to a terminal too; pipes and files always get them.")
    ] = False,
) -> None:
    """Print a job's log: exactly its bytes."""
    from cli.jobs import find, newest
    from cli.logs import LogReader, stdout_writer, tail_offset

    found = find(shell.client, job)
    _check_attempt(found, attempt, follow=follow)
    if attempt is None and not follow:
        attempt = newest(found).get("no")
    offset = 0
    if tail is not None:
        attempt = attempt or newest(found).get("no")
        offset = tail_offset(shell.client, found["id"], attempt, tail) if attempt else 0
    write = stdout_writer(raw=raw)
    if follow:
        submit.follow_log(shell, found, write, only=attempt if tail is None else None, begin=(attempt, offset))
        return
    if attempt is None:
        shell.note(f"Job {found['name']} has no log yet: it is {found['shown_state']}.")
        return
    LogReader(shell.client, found["id"], write, attempt=attempt, offset=offset).catch_up()


def _check_attempt(job: dict[str, Any], attempt: int | None, *, follow: bool) -> None:
    known = [one["no"] for one in job["attempts"]]
    if attempt is not None and attempt not in known:
        had = f"It had {', '.join(map(str, known))}." if known else "It had none yet."
        raise ApiError(f"Job {job['name']} has no attempt {attempt}.", status=404, hint=had)


@verb(app, "cancel", examples="berth job cancel digits\nberth job cancel digits --wait")
def job_cancel(
    shell: Shell,
    job: JobArgument,
    wait: Annotated[bool, typer.Option("--wait", help="Until it has stopped.")] = False,
) -> None:
    """Cancel a job: a waiting one at once, a running one by stopping it on its node."""
    from cli.jobs import find

    found = find(shell.client, job, among=lambda one: one["state"] != "ended")
    found = shell.client.post(f"/jobs/{found['id']}/cancel")
    if wait and found["state"] != "ended":
        found = submit.wait_until_ended(shell, found)
    sentences = {
        "ended": f"Job {found['name']} {found['shown_state']}.",
        "stopping": f"Job {found['name']} is stopping. Wait for it: berth job wait {found['id']}",
    }
    shell.done(found, sentences.get(found["state"], f"Job {found['name']} is {found['shown_state']}."))


@verb(app, "requeue", examples="berth job requeue digits")
def job_requeue(shell: Shell, job: JobArgument) -> None:
    """Run an ended job again, as a new attempt of the same job."""
    from cli.jobs import find

    found = find(shell.client, job, among=lambda one: one["state"] == "ended")
    found = shell.client.post(f"/jobs/{found['id']}/requeue")
    shell.done(found, f"Job {found['name']} is in the queue again. Follow it: berth job logs -f {found['id']}")


@verb(app, "wait", examples="berth job wait digits && echo done\nberth job wait digits --timeout 2h")
def job_wait(
    shell: Shell,
    job: JobArgument,
    timeout: Annotated[str, typer.Option(help="Give up after this long, such as 2h.", show_default=False)] = "",
) -> None:
    """Wait until a job has ended; the exit code is 0 when it succeeded, 1 when not."""
    from cli.jobs import find

    limit = submit.read_duration("--timeout", timeout)
    submit.finish(shell, submit.wait_until_ended(shell, find(shell.client, job), timeout_s=limit))


@verb(app, "events", examples="berth job events digits")
def job_events(
    shell: Shell,
    job: JobArgument,
    after: Annotated[int, typer.Option(min=0, help="Only events after this number.")] = 0,
) -> None:
    """List what happened to a job, in order."""
    from cli.jobs import data_text, find

    path, rows = f"/jobs/{find(shell.client, job)['id']}/events", []
    while page := shell.client.get(path, after=after)["results"]:
        rows += page
        after = page[-1]["seq"]
    columns: list[Column] = [
        ("SEQ", lambda row: str(row["seq"])),
        ("TIME", lambda row: time_text(row["at"])),
        ("EVENT", lambda row: str(row["name"])),
        ("DATA", lambda row: data_text(row["data"] or {})),
    ]
    shell.rows(rows, columns, name="name", empty="No events.")


@verb(app, "outputs", printing=False, examples="berth job outputs digits -o results/")
def job_outputs(
    shell: Shell,
    job: JobArgument,
    directory: Annotated[Path, typer.Option("-o", "--output-dir", metavar="DIR", help="Where to unpack.")] = Path(),
    attempt: AttemptOption = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the names of the files as JSON.")] = False,
) -> None:
    """Fetch the files that the job left in /berth/out."""
    from cli.jobs import find
    from cli.output import Format, dump
    from cli.outputs import fetch

    found = find(shell.client, job)
    _check_attempt(found, attempt, follow=False)
    chosen = next((one for one in reversed(found["attempts"]) if attempt in (None, one["no"])), None)
    if chosen is None or not chosen["outputs_sha256"]:
        why = "it has not ended yet" if found["state"] != "ended" else "it left nothing in /berth/out"
        raise CliError(f"Job {found['name']} has no kept outputs: {why}.")
    if sys.stderr.isatty():
        shell.note(f"Fetching {bytes_text(chosen['outputs_bytes'])} …")
    names = fetch(
        shell.client, found["id"], chosen["no"], directory, sha256=chosen["outputs_sha256"], note=shell.note,
        report=lambda count: None,
    )  # fmt: skip
    if json_:
        sys.stdout.write(dump({"directory": str(directory), "files": names}, Format.JSON))
    else:
        shell.say(f"{len(names)} file{'' if len(names) == 1 else 's'} in {directory}: {', '.join(names[:10])}")
