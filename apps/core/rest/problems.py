"""Failures as `application/problem+json` (RFC 9457), the one shape in which the API says no."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _
from rest_framework.exceptions import ErrorDetail
from rest_framework.utils.encoders import JSONEncoder
from rest_framework.utils.serializer_helpers import ReturnDict

CONTENT_TYPE = "application/problem+json"
_TOLD = {
    "required": _("This is missing. Give a value."),
    "null": _("This can't be null. Give a value, or leave it out if it may be left out."),
    "blank": _("This can't be empty. Give a value."),
}
"""Said in place of the framework's words, which say only that something is wrong."""


def problem(
    *, status: int, code: str, title: str, detail: str = "", errors: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Returns the body of a failure; `errors` maps a field to what is wrong with it."""
    return {
        "type": f"urn:berth:problem:{code}",
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
        "errors": dict(errors or {}),
    }


def problem_response(body: Mapping[str, Any]) -> HttpResponse:
    """Returns the body as an answer."""
    content = JSONEncoder(ensure_ascii=False).encode(body)
    return HttpResponse(content, status=int(body["status"]), content_type=CONTENT_TYPE)


def flat_errors(detail: Any, path: str = "") -> dict[str, str]:
    """Returns DRF's nested lists of messages as one text per dotted field name, such as `files.0.path`.

    What concerns the body as a whole stands under `body`.
    """
    if isinstance(detail, Mapping | ReturnDict):
        pairs = [(str(name), value) for name, value in detail.items()]
    elif isinstance(detail, Sequence) and not isinstance(detail, str):
        texts = [_told(item) for item in detail if isinstance(item, str)]
        found = {path or "body": " ".join(texts)} if texts else {}
        pairs = [(str(index), item) for index, item in enumerate(detail) if not isinstance(item, str) and item]
        return found | _deeper(pairs, path)
    else:
        return {path or "body": _told(detail)}
    return _deeper(pairs, path)


def _told(item: object) -> str:
    return str(_TOLD.get(item.code or "", item) if isinstance(item, ErrorDetail) else item)


def _deeper(pairs: list[tuple[str, Any]], path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in pairs:
        whole = path if name == "non_field_errors" else f"{path}.{name}" if path else name
        found |= flat_errors(value, whole)
    return found
