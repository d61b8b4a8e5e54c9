"""Error answers of the portal (problem+json) turned into plain lines."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from cli.errors import ApiError

HINTS = {
    "tenant_required": "Choose one: berth tenant use SLUG, or give --tenant SLUG.",
    "quota_exceeded": "See what is used: berth quota",
}
STATUS_HINTS = {
    429: "Wait a moment, then try again.",
    500: "This is the portal's fault. Its operators find the cause in its log.",
}


class Answer(Protocol):
    """What is read of an HTTP answer."""

    status_code: int

    @property
    def reason_phrase(self) -> str:
        """Returns the words of the status."""

    def json(self) -> Any:
        """Returns the parsed body."""


def problem_of(answer: Answer) -> ApiError:
    """Returns the problem that an error answer tells of; also for answers of proxies, which are no JSON."""
    status = answer.status_code
    document = _document(answer) if status >= 400 else {}
    code = str(document.get("code") or "")
    message = str(document.get("detail") or document.get("title") or "")
    if not message:
        message = f"The portal answered {status} {answer.reason_phrase}."
    lines = [f"{field}: {text}" for field, text in _flat(document.get("errors") or {})]
    hint = HINTS.get(code) or STATUS_HINTS.get(status, "")
    return ApiError(message, status=status, code=code, lines=lines, hint=hint)


def _document(answer: Answer) -> dict[str, Any]:
    try:
        document = answer.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _flat(errors: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yields (field, text) of nested maps and lists of texts."""
    if isinstance(errors, Mapping):
        for key, value in errors.items():
            yield from _flat(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(errors, list | tuple):
        for number, value in enumerate(errors):
            nested = isinstance(value, Mapping | list | tuple)
            yield from _flat(value, f"{prefix}[{number}]" if nested else prefix)
    else:
        yield prefix, str(errors)
