"""`berth job submit` and `clone`, and the waiting and following that other verbs share."""

import json
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.errors import CliError, ExitCode, InputError
from cli.shell import Shell, verb

if TYPE_CHECKING:
    from cli.live import Live

Job = dict[str, Any]

NameOption = Annotated[str | None, typer.Option("--name", help="The job's name.", show_default=False)]
ImageOption = Annotated[str | None, typer.Option("--image", help="Container image.", show_default=False)]
GpusOption = Annotated[int | None, typer.Option("--gpus", help="Whole GPUs (default 1).", show_default=False)]
ModelOption = Annotated[
    str | None, typer.Option("--gpu-model", help="Only on this model, such as H100.", show_default=False)
]
GpuMemoryOption = Annotated[
    str | None, typer.Option("--gpu-memory", metavar="SIZE", help="At least this much each.", show_default=False)
]
CpusOption = Annotated[float | None, typer.Option("--cpus", help="Cores (default 1).", show_default=False)]
MemoryOption = Annotated[
    str | None, typer.Option("--memory", metavar="SIZE", help="Such as 4Gi (default 1Gi).", show_default=False)
]
ShmOption = Annotated[
    str | None, typer.Option("--shm", metavar="SIZE", help="Of it /dev/shm (default 64Mi).", show_default=False)
]
TimeOption = Annotated[
    str | None, typer.Option("--time", metavar="TIME", help="Limit, such as 2h (default 1d).", show_default=False)
]
RetriesOption = Annotated[
    int | None, typer.Option("--retries", help="After faults of a node (default 0).", show_default=False)
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", metavar="K=V", help="Environment variable; K alone: as here.", show_default=False),
]
EnvFileOption = Annotated[
    Path | None, typer.Option("--env-file", help="File of K=V lines; keeps secrets off the command line.",
                              show_default=False)
]  # fmt: skip
FileOption = Annotated[
    list[str] | None,
    typer.Option("--file", metavar="LOCAL[:PATH]", help="Upload; seen as /berth/in/PATH.", show_default=False),
]
CommandArgument = Annotated[
    list[str] | None, typer.Argument(metavar="-- COMMAND…", help="What to run in it.", show_default=False)
]
WaitOption = Annotated[bool, typer.Option("--wait", help="Until it has ended; exit code 1 when it failed.")]
FollowOption = Annotated[bool, typer.Option("--follow", help="Print its log until it has ended.")]

SUBMIT_EXAMPLES = """
berth job submit --name hello --image docker.io/library/python:3.12 -- python -c 'print("hello")'
berth job submit --name train --image registry.local/torch:2 --gpus 2 --gpu-memory 40Gi --memory 64Gi \\
    --time 8h --retries 2 --file train.py --env-file secrets.env --follow -- python /berth/in/train.py
berth job submit -f job.yaml --gpus 4

job.yaml:
  name: train
  image: registry.local/torch:2
  command: [python, /berth/in/train.py, --epochs, "40"]
  gpus: 2
  memory_mib: 64Gi
  time_limit_s: 8h
  files:
    - local: train.py
"""


def register(app: typer.Typer) -> None:
    """Adds submit and clone."""
    verb(app, "submit", examples=SUBMIT_EXAMPLES)(job_submit)
    verb(app, "clone", examples="berth job clone digits\nberth job clone digits --memory 8Gi --follow")(job_clone)


def job_submit(
    shell: Shell,
    command: CommandArgument = None,
    file: Annotated[Path | None, typer.Option("-f", "--spec", help="YAML file; flags win.", show_default=False)] = None,
    name: NameOption = None,
    image: ImageOption = None,
    gpus: GpusOption = None,
    gpu_model: ModelOption = None,
    gpu_memory: GpuMemoryOption = None,
    cpus: CpusOption = None,
    memory: MemoryOption = None,
    shm: ShmOption = None,
    time: TimeOption = None,
    retries: RetriesOption = None,
    env: EnvOption = None,
    env_file: EnvFileOption = None,
    upload: FileOption = None,
    key: Annotated[
        str, typer.Option("--idempotency-key", help="The same key again makes no second job.", show_default=False)
    ] = "",
    wait: WaitOption = False,
    follow: FollowOption = False,
) -> None:
    """Submit a job, from flags, a YAML file or both."""
    from cli import files, spec

    _refuse_mix(shell, follow)
    base, uploads = spec.read_file(file) if file else ({}, [])
    flags = _flags(
        command=command, name=name, image=image, gpus=gpus, gpu_model=gpu_model, gpu_memory=gpu_memory, cpus=cpus,
        memory=memory, shm=shm, time=time, retries=retries, env=env, env_file=env_file,
    )  # fmt: skip
    body = spec.merged(base, flags)
    uploads += [spec.upload_of(text) for text in upload or []]
    spec.require_complete(body)
    if uploads:
        body["files"] = [*body.get("files", []), *files.send_all(shell.client, uploads)]
    _start(shell, "/jobs", body, key=key or str(uuid.uuid4()), tries=8, wait=wait, follow=follow)


def job_clone(
    shell: Shell,
    job: Annotated[str, typer.Argument(metavar="JOB", help="Id or name; a name means the newest job of it.")],
    command: CommandArgument = None,
    name: NameOption = None,
    image: ImageOption = None,
    gpus: GpusOption = None,
    gpu_model: ModelOption = None,
    gpu_memory: GpuMemoryOption = None,
    cpus: CpusOption = None,
    memory: MemoryOption = None,
    shm: ShmOption = None,
    time: TimeOption = None,
    retries: RetriesOption = None,
    env: EnvOption = None,
    env_file: EnvFileOption = None,
    wait: WaitOption = False,
    follow: FollowOption = False,
) -> None:
    """Submit a job again as a new one; flags change what shall differ."""
    from cli import jobs

    _refuse_mix(shell, follow)
    flags = _flags(
        command=command, name=name, image=image, gpus=gpus, gpu_model=gpu_model, gpu_memory=gpu_memory, cpus=cpus,
        memory=memory, shm=shm, time=time, retries=retries, env=env, env_file=env_file,
    )  # fmt: skip
    changes = {key: value for key, value in flags.items() if value is not None}
    found = jobs.find(shell.client, job)
    _start(shell, f"/jobs/{found['id']}/clone", changes, key=str(uuid.uuid4()), tries=8, wait=wait, follow=follow)


def _refuse_mix(shell: Shell, follow: bool) -> None:
    if follow and not shell.for_people:
        raise InputError(
            "--follow prints the log's bytes, so it can't print JSON, YAML or a name as well.",
            hint="Use --wait with --json, or submit with --json and then: berth job logs -f ID",
        )


def _flags(
    *,
    command: list[str] | None,
    name: str | None,
    image: str | None,
    gpus: int | None,
    gpu_model: str | None,
    gpu_memory: str | None,
    cpus: float | None,
    memory: str | None,
    shm: str | None,
    time: str | None,
    retries: int | None,
    env: list[str] | None,
    env_file: Path | None,
) -> dict[str, Any]:
    """Returns the spec's fields that flags gave, None for the others; names every wrong amount at once."""
    from cli import spec, units

    problems: list[str] = []

    def amount(option: str, text: str | None, read: Callable[[str], int]) -> int | None:
        try:
            return None if text is None else read(text)
        except ValueError as error:
            problems.append(f"{option}: {error}")
            return None

    flags = {
        "command": command or None, "name": name, "image": image, "gpus": gpus, "gpu_model": gpu_model,
        "gpu_memory_mib": amount("--gpu-memory", gpu_memory, units.mib), "cpus": cpus,
        "memory_mib": amount("--memory", memory, units.mib), "shm_mib": amount("--shm", shm, units.mib),
        "time_limit_s": amount("--time", time, units.seconds), "max_retries": retries,
        "env": spec.env_of(env or [], env_file) or None,
    }  # fmt: skip
    if problems:
        raise InputError("Some amounts can't be read.", lines=problems)
    return flags


def _start(shell: Shell, path: str, body: Job, *, key: str, tries: int, wait: bool, follow: bool) -> None:
    """Sends the job once, however often it must be sent, then waits or follows as wished."""
    from cli.live import Live

    shell.client.access_token()  # fresh before two threads need it
    if not (wait or follow):
        job = _post(shell, path, body, key=key, tries=tries)
        shell.done(job, _submitted(job) + f"\nFollow it: berth job logs -f {job['id']}")
        return
    with Live(shell.client) as live:  # it connects while the job is sent: the first bytes come at once
        job = _post(shell, path, body, key=key, tries=tries)
        live.subscribe(f"job/{job['id']}")
        if shell.for_people:
            shell.note(_submitted(job))
        if not follow:
            finish(shell, wait_until_ended(shell, job, live=live))
            return
        from cli.logs import stdout_writer

        follow_log(shell, job, stdout_writer(raw=False), live=live)


def _post(shell: Shell, path: str, body: Job, *, key: str, tries: int) -> Job:
    content = json.dumps(body, ensure_ascii=False).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    try:
        answer = shell.client.request("POST", path, tries=tries, content=content, headers=headers)
    except KeyboardInterrupt:
        raise CliError(
            "Interrupted while the job was being sent; it may have been taken in.",
            hint=f"See: berth job ls --search {body.get('name', '')}".rstrip(),
        ) from None
    from cli.client import json_of

    return dict(json_of(answer))


def _submitted(job: Job) -> str:
    return f"Submitted job {job['name']} ({job['id']})."


def wait_until_ended(shell: Shell, job: Job, *, live: "Live | None" = None, timeout_s: float | None = None) -> Job:
    """Shows where the job stands until it has ended."""
    from cli.follow import wait_for_end
    from cli.live import Live
    from cli.watch import Watch

    with Watch(f"Job {job['name']}") as watch:
        if live is not None:
            return wait_for_end(shell.client, job, live, watch, timeout_s=timeout_s)
        with Live(shell.client) as own:
            return wait_for_end(shell.client, job, own, watch, timeout_s=timeout_s)


def follow_log(
    shell: Shell,
    job: Job,
    write: Callable[[bytes], None],
    *,
    live: "Live | None" = None,
    only: int | None = None,
    begin: tuple[int | None, int] = (None, 0),
) -> None:
    """Prints the log until the job has ended, then leaves with the exit code of its result."""
    from cli.follow import LogFollower
    from cli.jobs import ending
    from cli.live import Live
    from cli.logs import LogReader
    from cli.watch import Watch

    def show(piece: bytes) -> None:
        watch.hide()  # the moving line must be gone before the log's first byte
        write(piece)

    with Watch(f"Job {job['name']}") as watch:
        reader = LogReader(shell.client, job["id"], show, attempt=begin[0], offset=begin[1])
        if live is not None:
            job = LogFollower(shell.client, job, reader, live, watch, only=only).run()
        else:
            with Live(shell.client) as own:
                job = LogFollower(shell.client, job, reader, own, watch, only=only).run()
    if only is not None:
        _leave_by_attempt(shell, job, only)
        return
    shell.note(ending(job))
    _leave(job)


def _leave_by_attempt(shell: Shell, job: Job, number: int) -> None:
    attempt = next(one for one in job["attempts"] if one["no"] == number)
    shell.note(f"Attempt {number} of job {job['name']} ended: {attempt['end_reason'] or attempt['state']}.")
    if attempt["end_reason"] not in ("", "exited"):
        raise typer.Exit(int(ExitCode.FAILED))


def finish(shell: Shell, job: Job) -> None:
    """Tells how the job ended and leaves with the exit code of its result."""
    from cli.jobs import ending

    shell.done(job, ending(job))
    sys.stdout.flush()
    _leave(job)


def _leave(job: Job) -> None:
    from cli.jobs import exit_code

    if code := exit_code(job):
        raise typer.Exit(int(code))


def read_duration(option: str, text: str) -> int | None:
    """Returns seconds of an option's value, None for an empty one."""
    from cli import units

    try:
        return units.seconds(text) if text else None
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None
