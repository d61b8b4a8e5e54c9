"""Requests with an Idempotency-Key: record, work and stored answer commit together or not at all."""

import re
import uuid
from collections.abc import Callable

from django.http import HttpResponse
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from apps.core import clock, idempotency
from apps.core.access import Actor
from apps.core.errors import InvalidInput
from apps.core.tenancy import tenant_scope

HEADER = "Idempotency-Key"
_KEY = re.compile(r"^[\x21-\x7e]{1,255}$")


def idempotent(
    request: Request, *, tenant_id: uuid.UUID, actor: Actor, work: Callable[[], object], status: int = 201
) -> HttpResponse:
    """Answers with what `work` returns, as JSON; a repeat with the same key and body gets the same bytes.

    `work` runs in the transaction that keeps its answer. Raises InvalidInput, IdempotencyMismatch,
    IdempotencyInFlight, and whatever `work` raises (then the key stays free).
    """
    key = request.headers.get(HEADER)
    if key is None:
        return _answer(_json(work()), status)
    if not _KEY.match(key):
        raise InvalidInput(
            f"The {HEADER} is not usable.",
            errors={HEADER: "Give 1 to 255 visible ASCII characters without blanks, such as a new UUID."},
        )
    route = f"{request.method} {request.path}"
    with tenant_scope(tenant_id):
        record = idempotency.begin(
            tenant_id=tenant_id, actor=actor, route=route, key=key, body=request._request.body, now=clock.utc_now()
        )
        if record.answer_status is not None:
            return _answer(str(record.answer), record.answer_status)
        # kept as text: a jsonb object would come back with its keys in another order
        text = _json(work())
        idempotency.finish(record, status=status, answer=text)
    return _answer(text, status)


def _json(answer: object) -> str:
    return str(JSONRenderer().render(answer).decode())


def _answer(text: str, status: int) -> HttpResponse:
    return HttpResponse(text, status=status, content_type="application/json")
