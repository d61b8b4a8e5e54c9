"""Every failure of the API as problem+json, with the headers that belong to it."""

import math
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from django.views import defaults
from rest_framework import exceptions

from apps.core.errors import BerthError, Unavailable
from apps.core.rest.problems import flat_errors, problem, problem_response

log = structlog.get_logger(__name__)
API_PREFIX = "/api/"
TITLES = {
    400: "The request could not be read",
    401: "Sign in first",
    403: "Not allowed",
    404: "Not found",
    405: "This can't be done here",
    406: "No such form of answer",
    413: "The request is too large",
    415: "No such form of input",
    429: "Too many requests",
    500: "Berth failed",
}


def problem_details(exc: Exception, context: dict[str, Any]) -> HttpResponse | None:
    """Answers DRF's views; None for what nobody foresaw, which Django logs and `server_error` answers."""
    body = _body(exc)
    if body is None:
        return None
    answer = problem_response(body)
    if body["status"] == 401:
        challenge = getattr(exc, "auth_header", None) or 'Bearer realm="berth"'
        answer["WWW-Authenticate"] = challenge
    if body["status"] in (429, 503):
        wait = getattr(exc, "wait", None)
        answer["Retry-After"] = str(math.ceil(wait)) if wait else "2"
    return answer


def _body(exc: Exception) -> dict[str, Any] | None:
    if isinstance(exc, OperationalError):
        log.warning("api.database", error=str(exc).strip())
        exc = Unavailable("The database does not answer now. Try again in a moment.")
    if isinstance(exc, BerthError):
        errors = {name: str(text) for name, text in exc.errors.items()}
        return problem(status=exc.status, code=exc.code, title=exc.title, detail=exc.detail, errors=errors)
    if isinstance(exc, exceptions.ValidationError):
        return problem(
            status=422, code="invalid_input", title="Some values are not valid",
            detail=_("See errors for each field."), errors=flat_errors(exc.detail),
        )  # fmt: skip
    if isinstance(exc, RequestDataTooBig):
        return problem(status=413, code="too_large", title=TITLES[413], detail=str(exc))
    if isinstance(exc, Http404):
        exc = exceptions.NotFound()
    if isinstance(exc, PermissionDenied):
        exc = exceptions.PermissionDenied()
    if isinstance(exc, exceptions.APIException):
        return _drf(exc)
    return None


def _drf(exc: exceptions.APIException) -> dict[str, Any]:
    code = exc.get_codes()
    return problem(
        status=exc.status_code,
        code=code if isinstance(code, str) else exc.default_code,
        title=TITLES.get(exc.status_code, TITLES[400]),
        detail=str(exc.detail) if isinstance(exc.detail, str) else str(exc.default_detail),
    )


def _plain(status: int, code: str, detail: str) -> HttpResponse:
    return problem_response(problem(status=status, code=code, title=TITLES[status], detail=detail))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Answers an address that does not exist."""
    if request.path.startswith(API_PREFIX):
        return _plain(404, "not_found", "There is nothing at this address. See /api/v1/docs.")
    return defaults.page_not_found(request, exception)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Answers a request that Django refuses before any view."""
    if request.path.startswith(API_PREFIX):
        return _plain(400, "bad_request", "The request is malformed.")
    return defaults.bad_request(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Answers when Berth itself failed; the log has the traceback."""
    if request.path.startswith(API_PREFIX):
        return _plain(500, "internal", "Berth failed. The operators' log has the details.")
    return defaults.server_error(request)
