"""Entry point of `berth`."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from cli import __version__
from cli.commands import account, gpu, job, node, quota
from cli.errors import CliError, ExitCode
from cli.shell import group

app = group("Run training jobs on the GPU nodes of a Berth portal.")
app._add_completion = True


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"berth {__version__}\n")
        raise typer.Exit


@app.callback(epilog="\b\nStart here:\n  berth login --url https://berth.example.org\n  berth job submit --help")
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version)] = False,
) -> None:
    """Run training jobs on the GPU nodes of a Berth portal."""


account.register(app)
app.add_typer(job.app, name="job")
app.add_typer(node.app, name="node")
app.add_typer(gpu.app, name="gpu")
quota.register(app)


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code; every failure has been told on stderr."""
    try:
        code = app(args=None if arguments is None else list(arguments), standalone_mode=False, prog_name="berth")
        sys.stdout.flush()
        return int(code or 0)
    except CliError as error:
        _tell(error.report())
        return int(error.exit_code)
    except typer.TyperException as error:
        _show_usage(error)
        return int(ExitCode.USAGE)
    except (KeyboardInterrupt, typer.Abort):
        _tell("Interrupted.")
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # The reader (head, less) has gone: nothing more to say, and Python must not complain at its end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _show_usage(error: Exception) -> None:
    show = getattr(error, "show", None)
    if show is None:
        _tell(f"berth: {error}")
    else:
        show()


def _tell(text: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"{text}\n")


def main() -> None:
    """Runs `berth` and ends the process with its exit code."""
    sys.exit(run())
