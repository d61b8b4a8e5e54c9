"""Failures as `application/problem+json` (RFC 9457), the one shape in which the API says no."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpResponse
from rest_framework.utils.encoders import JSONEncoder
from rest_framework.utils.serializer_helpers import ReturnDict

CONTENT_TYPE = "application/problem+json"


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
    """Returns DRF's nested lists of messages as one text per dotted field name, such as `files.0.path`."""
    if isinstance(detail, Mapping | ReturnDict):
        pairs = [(str(name), value) for name, value in detail.items()]
    elif isinstance(detail, Sequence) and not isinstance(detail, str):
        texts = [str(item) for item in detail if isinstance(item, str)]
        found = {path: " ".join(texts)} if texts else {}
        pairs = [(str(index), item) for index, item in enumerate(detail) if not isinstance(item, str) and item]
        return found | _deeper(pairs, path)
    else:
        return {path: str(detail)}
    return _deeper(pairs, path)


def _deeper(pairs: list[tuple[str, Any]], path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in pairs:
        whole = path if name == "non_field_errors" else f"{path}.{name}" if path else name
        found |= flat_errors(value, whole)
    return found
