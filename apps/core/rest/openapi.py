"""What the OpenAPI schema says of every route: headers, and failures as problem+json."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter

from apps.core.rest.problems import CONTENT_TYPE

TENANT = OpenApiParameter(
    "Berth-Tenant",
    str,
    OpenApiParameter.HEADER,
    description="Short name of the tenant. May be left out by members of exactly one tenant.",
)
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="Makes a repeat safe for 24 hours: the same body gets the same answer, another body 422, and a repeat"
    " while the first request still runs 409.",
)
LANGUAGE = OpenApiParameter(
    "Accept-Language",
    str,
    OpenApiParameter.HEADER,
    description="Language of the words for reasons: `en` or `zh-hans`.",
)

_ALWAYS = {
    "400": "The request is malformed, or a tenant must be named (`tenant_required`).",
    "422": "Some values are not valid; `errors` names each field.",
    "429": "Too many requests; Retry-After says how long to wait.",
    "503": "Something that Berth depends on does not answer now.",
}
_SIGNED_IN = {
    "401": "Not signed in, or the token has ended.",
    "403": "Known, but not allowed.",
    "404": "There is no such thing, or you may not know of it.",
}
_WRITES = {"409": "Not possible in the present state."}


PROBLEM = {
    "type": "object",
    "description": "A failure (RFC 9457).",
    "required": ["type", "title", "status", "detail", "code", "errors"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string", "description": "Stable; made for programs."},
        "errors": {
            "type": "object",
            "description": "What is wrong, by field (`files.0.path`).",
            "additionalProperties": {"type": "string"},
        },
    },
}


def add_problems(result: dict[str, Any], generator: object, **kwargs: object) -> dict[str, Any]:
    """Adds the failures that any route may answer with (a drf-spectacular post-processing hook)."""
    result["components"]["schemas"]["Problem"] = PROBLEM
    for operations in result["paths"].values():
        for verb, operation in operations.items():
            open_to_all = operation.get("security") in (None, [], [{}])
            texts = _ALWAYS | ({"401": _SIGNED_IN["401"]} if open_to_all else _SIGNED_IN)
            if verb != "get":
                texts |= _WRITES
            for status, text in texts.items():
                operation["responses"].setdefault(status, _answer(text))
            operation["responses"] = dict(sorted(operation["responses"].items()))
    return result


def _answer(description: str) -> dict[str, Any]:
    content = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": description, "content": content}
