"""What every verb is given: the common options, the portal's client and the ways to print."""

import functools
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.errors import InputError
from cli.output import Column, Format, Row, console, print_facts, print_rows

if TYPE_CHECKING:
    from cli.client import Client
    from cli.config import ConfigStore, Profile

ProfileOption = Annotated[str, typer.Option("--profile", metavar="NAME", help="Use this sign-in.", show_default=False)]
TenantOption = Annotated[
    str, typer.Option("--tenant", metavar="SLUG", help="Act in this tenant, just this once.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, the same as -o json.")]
FormatOption = Annotated[Format, typer.Option("-o", "--output", help="How to print.", case_sensitive=False)]

make_transport: Callable[[], Any] = lambda: None  # noqa: E731 - tests put a fake portal here


@dataclass
class Shell:
    """The common options of one call."""

    profile_name: str = ""
    tenant: str = ""
    form: Format = Format.TABLE
    _client: "Client | None" = field(default=None, repr=False)

    @functools.cached_property
    def store(self) -> "ConfigStore":
        """The file of sign-ins."""
        from cli.config import ConfigStore, config_path

        return ConfigStore(config_path(os.environ))

    def profile(self) -> "tuple[str, Profile]":
        """Returns the profile's name and values; the environment may name it and its tenant."""
        return self.store.profile(self.profile_name or os.environ.get("BERTH_PROFILE", ""))

    @property
    def client(self) -> "Client":
        """The client of the profile in use."""
        if self._client is None:
            name, profile = self.profile()
            self._client = self.client_for(name, profile)
        return self._client

    def client_for(self, name: str, profile: "Profile") -> "Client":
        """Returns a client for a profile that need not be saved yet."""
        from cli.client import Client, make_http

        tenant = self.tenant or os.environ.get("BERTH_TENANT", "") or profile.tenant
        http = make_http(profile, make_transport())
        return Client(self.store, name, profile, http=http, tenant=tenant, note=self.note)

    def close(self) -> None:
        """Gives the connections back."""
        if self._client is not None:
            self._client.http.close()

    # -- printing

    @property
    def for_people(self) -> bool:
        """Whether the answer is read by a person, not a program."""
        return self.form is Format.TABLE

    def note(self, text: str) -> None:
        """Tells something beside the answer."""
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def say(self, text: str) -> None:
        """Tells a person the outcome; programs read the object instead."""
        if self.for_people:
            sys.stdout.write(f"{text}\n")

    def rows(self, rows: list[Row], columns: list[Column], *, name: str = "id", empty: str = "") -> None:
        """Prints a list, or the sentence `empty` for a person."""
        print_rows(rows, columns, self.form, name=name)
        if not rows and self.for_people and empty:
            self.note(empty)

    def facts(self, value: Row, facts: list[tuple[str, str]], *, name: str = "id") -> None:
        """Prints one object."""
        print_facts(value, facts, self.form, name=name)

    def done(self, value: Row, sentence: str, *, name: str = "id") -> None:
        """Prints the outcome of an act: a sentence for people, the object for programs."""
        if self.for_people:
            self.say(sentence)
        else:
            print_facts(value, [], self.form, name=name)

    def console(self, stream: Any) -> Any:
        """Returns a rich console on the stream."""
        return console(stream)


COMMON = {"profile": (ProfileOption, ""), "tenant": (TenantOption, "")}
PRINTING: dict[str, tuple[Any, Any]] = {"json_": (JsonOption, False), "output": (FormatOption, Format.TABLE)}


def verb(
    app: typer.Typer, name: str, *, printing: bool = True, examples: str = "", **settings: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers a function `f(shell, …)` as a verb and adds the common options to it."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        extra = COMMON | (PRINTING if printing else {})
        own = list(inspect.signature(function).parameters.values())[1:]
        added = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for key, (annotation, default) in extra.items()
        ]

        def run(**values: Any) -> None:
            shell = Shell(values.pop("profile"), values.pop("tenant"), _form(values) if printing else Format.TABLE)
            try:
                function(shell, **values)
            finally:
                shell.close()

        run.__name__, run.__doc__ = function.__name__, function.__doc__
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + added
        )
        run.__annotations__ = {p.name: p.annotation for p in own + added}
        app.command(name, epilog=_epilog(examples), **settings)(run)
        return function

    return register


def _form(values: dict[str, Any]) -> Format:
    as_json, form = values.pop("json_"), Format(values.pop("output"))
    if as_json and form not in (Format.TABLE, Format.JSON):
        raise InputError(f"--json and -o {form.value} can't be combined.", hint="Give one of them.")
    return Format.JSON if as_json else form


def _epilog(examples: str) -> str | None:
    if not examples:
        return None
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in inspect.cleandoc(examples).splitlines())


def group(help_text: str) -> typer.Typer:
    """Returns a group of verbs with plain help: loading rich for it would cost 0.1 s at each start."""
    return typer.Typer(
        help=help_text,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
