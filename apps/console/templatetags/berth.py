"""The small parts that every page is made of: icons, state badges, times, sizes."""

import datetime as dt
import shlex
from decimal import Decimal
from typing import Any

from django import template
from django.conf import settings
from django.forms import BoundField, CheckboxInput
from django.templatetags.static import static
from django.utils import formats, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.fleet.choices import NodeState
from apps.workloads.choices import AttemptState, JobResult, JobState

register = template.Library()

_BADGES = {
    "pending": ("clock", "waiting"),
    "placed": ("map-pin", "starting"),
    "starting": ("loader-2", "starting"),
    "running": ("player-play", "running"),
    "stopping": ("player-stop", "stopping"),
    "ended": ("circle-check", "cancelled"),
    "succeeded": ("circle-check", "succeeded"),
    "failed": ("circle-x", "failed"),
    "cancelled": ("circle-minus", "cancelled"),
    "lost": ("plug-connected-x", "lost"),
    "enrolling": ("progress", "starting"),
    "ready": ("circle-check", "running"),
    "cordoned": ("player-pause", "stopping"),
    "draining": ("arrow-down-circle", "stopping"),
    "unreachable": ("wifi-off", "lost"),
    "down": ("power", "failed"),
    "maintenance": ("tool", "waiting"),
    "retired": ("archive", "cancelled"),
}
_KINDS = {"job": (JobState, JobResult), "attempt": (AttemptState, JobResult), "node": (NodeState,)}
_UNITS = ("B", "kB", "MB", "GB", "TB")


@register.simple_tag
def icon(name: str, css: str = "") -> SafeString:
    """Draws an icon of the sprite; it is decoration, the word stands beside it."""
    return format_html(
        '<svg class="icon {}" aria-hidden="true" focusable="false"><use href="{}#{}"/></svg>',
        css, static("vendor/icons.svg"), name,
    )  # fmt: skip


@register.simple_tag
def badge(state: str, kind: str = "job") -> SafeString:
    """Draws a state: colour, icon and word."""
    name, tone = _BADGES.get(state, ("info-circle", "waiting"))
    return format_html(
        '<span class="state state-{}">{}<span>{}</span></span>', tone, icon(name), state_word(state, kind)
    )


@register.simple_tag
def state_word(state: str, kind: str = "job") -> str:
    """Returns the word of a state in the active language."""
    for choices in _KINDS[kind]:
        if state in choices.values:
            return str(choices(state).label)
    return state


@register.simple_tag
def when(at: dt.datetime | None, style: str = "relative") -> SafeString | str:
    """Shows a time: the page's script makes it relative and local; UTC stands in the title."""
    if at is None:
        return "–"
    utc = timezone.localtime(at, dt.UTC)
    shown = formats.date_format(utc, "DATETIME_FORMAT")
    return format_html(
        '<time datetime="{}" data-time="{}" title="{} UTC">{}</time>', utc.isoformat(), style, shown, shown
    )


@register.filter
def delta(value: dt.timedelta | None) -> str:
    """Writes a time span as people read it: 0.04 s, 12 s, 3 min 5 s, 2 h 10 min."""
    return span(value.total_seconds()) if value is not None else ""


@register.filter
def span(seconds: float | Decimal | None) -> str:
    """Writes seconds as people read them."""
    if seconds is None:
        return "–"
    if seconds < 10:
        return _("%(n)s s") % {"n": formats.localize(round(float(seconds), 2))}
    whole = int(seconds)
    if whole < 60:
        return _("%(n)s s") % {"n": whole}
    if whole < 3600:
        return _("%(m)d min %(s)d s") % {"m": whole // 60, "s": whole % 60}
    if whole < 86_400:
        return _("%(h)d h %(m)d min") % {"h": whole // 3600, "m": whole % 3600 // 60}
    return _("%(d)d d %(h)d h") % {"d": whole // 86_400, "h": whole % 86_400 // 3600}


@register.filter
def took(job: Any) -> str:
    """Writes how long a job ran, or has run until now."""
    if job.started_at is None:
        return "–"
    return span(((job.ended_at or timezone.now()) - job.started_at).total_seconds())


@register.filter
def size(count: int | None) -> str:
    """Writes bytes with a unit (powers of 1000)."""
    if count is None:
        return "–"
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{formats.number_format(value, 1 if unit else 0)} {_UNITS[unit]}"


@register.filter
def gib(mib: int | None) -> str:
    """Writes MiB as GiB, below one GiB as MiB."""
    if mib is None:
        return "–"
    if 0 < mib < 1024:
        return f"{mib} MiB"
    return f"{formats.number_format(Decimal(mib) / 1024, 0 if mib % 1024 == 0 else 1)} GiB"


@register.filter
def cores(milli: int) -> str:
    """Writes thousandths of a core as cores."""
    return f"{milli / 1000:g}"


@register.filter
def gpus_asked(spec: Any) -> str:
    """Writes what a job asks for: 2 × H100, or CPU only."""
    if not spec.gpus:
        return _("CPU only")
    return f"{spec.gpus} × {spec.gpu_model or 'GPU'}"


@register.filter
def jobs_count(count: int) -> str:
    """Writes a number of jobs."""
    return ngettext("%(n)d job", "%(n)d jobs", count) % {"n": count}


@register.filter
def field_attrs(field: BoundField) -> SafeString:
    """Draws a form field with its class and the links to its help and error."""
    widget = field.field.widget
    css = "form-check-input" if isinstance(widget, CheckboxInput) else "form-control"
    wrong = bool(field.errors)
    about = [f"{field.auto_id}-help"] if field.help_text else []
    about += [f"{field.auto_id}-error"] if wrong else []
    attrs: dict[str, Any] = {"class": css + (" is-invalid" if wrong else "")}
    if about:
        attrs["aria-describedby"] = " ".join(about)
    if wrong:
        attrs["aria-invalid"] = "true"
    return field.as_widget(attrs=attrs)


@register.filter
def shown_words(command: tuple[str, ...]) -> str:
    """Writes a command's words as one would type them."""
    return shlex.join(command)


@register.filter
def is_checkbox(field: BoundField) -> bool:
    """Says whether a field is a check box, which has its label behind it."""
    return isinstance(field.field.widget, CheckboxInput)


_EQUIVALENTS = {
    "jobs": (("job ls",), (("GET", "jobs"),)),
    "job": (
        ("job show {0}", "job logs -f {0}", "job cancel {0}"),
        (("GET", "jobs/{0}"), ("GET", "jobs/{0}/log"), ("POST", "jobs/{0}/cancel")),
    ),
    "nodes": (("node ls",), (("GET", "nodes"),)),
    "node": (
        ("node show {0}", "node cordon {0}", "node drain {0}"),
        (("GET", "nodes/{0}"), ("POST", "nodes/{0}/cordon"), ("POST", "nodes/{0}/drain")),
    ),
}


@register.inclusion_tag("parts/equivalents.html")
def equivalents(page: str, name: object = "") -> dict[str, str]:
    """Shows what does the same as this page by CLI and API."""
    commands, calls = _EQUIVALENTS[page]
    curl = 'curl {method}-H "Authorization: Bearer $BERTH_TOKEN" \\\n  {url}/api/v1/{path}'
    return {
        "cli": "\n".join(f"berth {command.format(name)}" for command in commands),
        "api": "\n\n".join(
            curl.format(method="" if m == "GET" else f"-X {m} ", url=settings.BERTH_PUBLIC_URL, path=path.format(name))
            for m, path in calls
        ),
    }
