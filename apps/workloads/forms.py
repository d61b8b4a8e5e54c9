"""The form of a new job: what to run, on what, how much, how long."""

import json
import re
import shlex
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.core.errors import InvalidInput
from apps.workloads.types import GIB, InputFile, JobSpec

_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d+)\s*([smhd])")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([mgt]i?b?)", re.IGNORECASE)
_UNIT_MIB = {"m": 1, "g": GIB, "t": GIB * GIB}
_FIELD_OF_SPEC = {
    "gpu_memory_mib": "gpu_memory", "cpu_milli": "cpus", "memory_mib": "memory", "shm_mib": "shm",
    "time_limit_s": "time_limit", "files": "inputs",
}  # fmt: skip


def seconds_of(text: str) -> int:
    """Reads a duration such as `90m`, `1h 30m` or `2d` as seconds; raises ValueError."""
    rest = _DURATION.sub("", text.lower()).strip()
    if rest or not text.strip():
        raise ValueError(text)
    return sum(int(n) * _UNIT_S[unit] for n, unit in _DURATION.findall(text.lower()))


def duration_of(seconds: int) -> str:
    """Writes seconds as `seconds_of` reads them."""
    parts = []
    for unit in "dhms":
        count, seconds = divmod(seconds, _UNIT_S[unit])
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts) or "0s"


def mib_of(text: str) -> int:
    """Reads a size such as `512 MiB`, `4G` or `1.5 TiB` as MiB (all units count by 1024); raises ValueError."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    return int(Decimal(found[1]) * _UNIT_MIB[found[2][0].lower()])


def size_of(mib: int) -> str:
    """Writes MiB as `mib_of` reads them."""
    return f"{mib // GIB} GiB" if mib and mib % GIB == 0 else f"{mib} MiB"


class SizeField(forms.CharField):
    """A size; its value is MiB, 0 when it may be empty and is."""

    def clean(self, value: Any) -> Any:
        """Reads the size; raises ValidationError."""
        text = super().clean(value)
        if not text:
            return 0
        try:
            return mib_of(text)
        except ValueError as error:
            raise forms.ValidationError(_("Write it such as 512 MiB or 4 GiB.")) from error


class JobForm(forms.Form):
    """A job as typed; `spec()` is what is submitted."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=63,
        help_text=gettext_lazy("Letters, digits, dots, hyphens and underscores."),
    )
    image = forms.CharField(
        label=gettext_lazy("Image"),
        max_length=255,
        help_text=gettext_lazy("A container image, such as docker.io/library/python:3.12."),
    )
    command = forms.CharField(
        label=gettext_lazy("Command"), widget=forms.Textarea(attrs={"rows": 3}), strip=False,
        help_text=gettext_lazy(
            "As in a terminal; quotes group words. Input files lie in /berth/in, what you write to /berth/out is kept."
        ),
    )  # fmt: skip
    shell = forms.BooleanField(label=gettext_lazy("Run in a shell (for pipes, && and variables)"), required=False)
    env = forms.CharField(
        label=gettext_lazy("Environment"), required=False, widget=forms.Textarea(attrs={"rows": 3}), strip=False,
        help_text=gettext_lazy("One NAME=value per line. Values are sealed and never shown again."),
    )  # fmt: skip
    inputs = forms.CharField(required=False, widget=forms.HiddenInput(), initial="[]")

    gpus = forms.IntegerField(label=gettext_lazy("GPUs"), initial=1, help_text=gettext_lazy("All on one node."))
    gpu_model = forms.CharField(
        label=gettext_lazy("GPU model"), required=False, max_length=120, help_text=gettext_lazy("Empty: any model.")
    )
    gpu_memory = SizeField(
        label=gettext_lazy("GPU memory"),
        required=False,
        help_text=gettext_lazy("At least, per GPU, such as 40 GiB. Empty: any."),
    )
    cpus = forms.DecimalField(
        label=gettext_lazy("CPU cores"), initial=1, min_value=Decimal(0), max_value=Decimal(10**6)
    )
    memory = SizeField(
        label=gettext_lazy("Memory"), initial="1 GiB", help_text=gettext_lazy("A job that uses more is ended.")
    )
    shm = SizeField(
        label=gettext_lazy("Shared memory"),
        initial="64 MiB",
        help_text=gettext_lazy("Part of the memory. Data loaders need it."),
    )

    time_limit = forms.CharField(
        label=gettext_lazy("Time limit"),
        initial="1d",
        help_text=gettext_lazy("Such as 90m, 2h 30m or 1d. Then it is stopped."),
    )
    max_retries = forms.IntegerField(
        label=gettext_lazy("Retries"), initial=0, help_text=gettext_lazy("How often it is requeued when a node fails.")
    )

    idempotency_key = forms.CharField(widget=forms.HiddenInput(), max_length=64)
    clone_of = forms.UUIDField(widget=forms.HiddenInput(), required=False)

    # what the template shows together
    WHAT = ("name", "image", "command", "shell", "env")
    ON_WHAT = ("gpus", "gpu_model", "gpu_memory")
    HOW_MUCH = ("cpus", "memory", "shm")
    HOW_LONG = ("time_limit", "max_retries")

    def what(self) -> list[forms.BoundField]:
        """Fields of the first part."""
        return [self[name] for name in self.WHAT]

    def on_what(self) -> list[forms.BoundField]:
        """Fields of the second part."""
        return [self[name] for name in self.ON_WHAT]

    def how_much(self) -> list[forms.BoundField]:
        """Fields of the third part."""
        return [self[name] for name in self.HOW_MUCH]

    def how_long(self) -> list[forms.BoundField]:
        """Fields of the last part."""
        return [self[name] for name in self.HOW_LONG]

    def clean_command(self) -> tuple[str, ...]:
        """Reads the command as words."""
        text = self.cleaned_data["command"].replace("\r\n", "\n")
        if self.data.get("shell"):
            return ("sh", "-c", text)
        try:
            return tuple(shlex.split(text))
        except ValueError as error:
            raise forms.ValidationError(_("A quote is not closed.")) from error

    def clean_env(self) -> dict[str, str | None]:
        """Reads NAME=value lines; a NAME alone (None) keeps the value of the job that is cloned."""
        found: dict[str, str | None] = {}
        for line in self.cleaned_data["env"].splitlines():
            if not line.strip():
                continue
            name, equals, value = line.partition("=")
            if not equals and not self.data.get("clone_of"):
                raise forms.ValidationError(_("Write it as NAME=value: %(line)s") % {"line": line[:40]})
            found[name.strip()] = value if equals else None
        return found

    def clean_inputs(self) -> tuple[InputFile, ...]:
        """Reads the list that the upload keeps."""
        try:
            rows = json.loads(self.cleaned_data["inputs"] or "[]")
            return tuple(
                InputFile(path=str(r["path"]), sha256=str(r["sha256"]), size=int(r.get("size", 0))) for r in rows
            )
        except (ValueError, TypeError, KeyError) as error:
            raise forms.ValidationError(_("The list of files can't be read. Choose them again.")) from error

    def clean_time_limit(self) -> int:
        """Reads the time limit as seconds."""
        try:
            return seconds_of(self.cleaned_data["time_limit"])
        except ValueError as error:
            raise forms.ValidationError(_("Write it such as 90m, 2h 30m or 1d.")) from error

    def clean(self) -> dict[str, Any]:
        """Checks the values as the service will, so that every wrong field is marked at once."""
        c = self.cleaned_data
        draft = JobSpec(
            name=c.get("name", "x"), image=c.get("image", "x"), command=c.get("command", ("x",)),
            env={name: value or "" for name, value in c.get("env", {}).items()}, gpus=c.get("gpus", 0),
            gpu_memory_mib=c.get("gpu_memory", 0), cpu_milli=int(c.get("cpus", 1) * 1000),
            memory_mib=c.get("memory", GIB), shm_mib=c.get("shm", 1), time_limit_s=c.get("time_limit", 1),
            max_retries=c.get("max_retries", 0), files=c.get("inputs", ()),
        )  # fmt: skip
        for name, text in draft.problems().items():
            field = _FIELD_OF_SPEC.get(name, name)
            if field in c:
                self.add_error(field, text)
        return c

    def spec(self, *, kept_env: Mapping[str, str]) -> JobSpec:
        """Returns the job as asked; `kept_env` has the values of a cloned job's environment."""
        c = self.cleaned_data
        unknown = [name for name, value in c["env"].items() if value is None and name not in kept_env]
        if unknown:
            raise InvalidInput(
                _("The job can't be submitted with these values."),
                errors={"env": _("Write it as NAME=value: %(line)s") % {"line": unknown[0][:40]}},
            )
        return JobSpec(
            name=c["name"], image=c["image"], command=c["command"],
            env={name: kept_env[name] if value is None else value for name, value in c["env"].items()},
            gpus=c["gpus"], gpu_model=c["gpu_model"], gpu_memory_mib=c["gpu_memory"],
            cpu_milli=int(c["cpus"] * 1000), memory_mib=c["memory"], shm_mib=c["shm"],
            time_limit_s=c["time_limit"], max_retries=c["max_retries"], files=c["inputs"],
        )  # fmt: skip

    def add_errors(self, error: InvalidInput) -> None:
        """Puts what a service found wrong beside the fields."""
        for name, text in error.errors.items():
            field = _FIELD_OF_SPEC.get(name, name)
            self.add_error(field if field in self.fields else None, str(text))
        if not error.errors:
            self.add_error(None, error.detail)


def new_key() -> str:
    """Returns a key under which one form may be submitted once."""
    return uuid.uuid4().hex


def initial_of(spec: JobSpec, *, clone_of: uuid.UUID) -> dict[str, Any]:
    """Returns the form's values for a clone; of the environment only names, so that no secret is shown."""
    in_shell = len(spec.command) == 3 and spec.command[:2] == ("sh", "-c")
    files = [{"path": f.path, "sha256": f.sha256, "size": f.size} for f in spec.files]
    return {
        "name": spec.name, "image": spec.image, "shell": in_shell,
        "command": spec.command[2] if in_shell else shlex.join(spec.command),
        "env": "\n".join(spec.env), "inputs": json.dumps(files), "gpus": spec.gpus, "gpu_model": spec.gpu_model,
        "gpu_memory": size_of(spec.gpu_memory_mib) if spec.gpu_memory_mib else "", "cpus": f"{spec.cpu_milli / 1000:g}",
        "memory": size_of(spec.memory_mib), "shm": size_of(spec.shm_mib), "time_limit": duration_of(spec.time_limit_s),
        "max_retries": spec.max_retries, "clone_of": clone_of,
    }  # fmt: skip
