"""Errors that reach people: each has a stable code, a status and says what to do."""

from typing import Any, ClassVar


class BerthError(Exception):
    """A failure that is told to the caller as it is; `code` is stable and documented."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 400
    title: ClassVar[str] = "The request could not be carried out"

    def __init__(self, detail: str, *, errors: dict[str, Any] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors or {}


class InvalidInput(BerthError):
    """The input is wrong; `errors` maps a field to what is wrong with it."""

    code = "invalid_input"
    status = 422
    title = "Some values are not valid"


class NotFound(BerthError):
    """The object does not exist, or the caller may not know that it does."""

    code = "not_found"
    status = 404
    title = "Not found"


class Forbidden(BerthError):
    """The caller is known and may not do this."""

    code = "forbidden"
    status = 403
    title = "Not allowed"


class Conflict(BerthError):
    """The object is in a state in which this can't be done."""

    code = "conflict"
    status = 409
    title = "Not possible in the present state"


class StateConflict(Conflict):
    """A compare-and-swap of a state lost: the object has moved on."""

    code = "state_conflict"


class QuotaExceeded(BerthError):
    """The tenant's quota does not leave room for this."""

    code = "quota_exceeded"
    status = 409
    title = "Quota exceeded"


class IdempotencyMismatch(BerthError):
    """The Idempotency-Key was used before with another body."""

    code = "idempotency_key_reused"
    status = 422
    title = "Idempotency-Key used for another request"


class IdempotencyInFlight(BerthError):
    """The first request with this Idempotency-Key has not answered yet."""

    code = "idempotency_in_flight"
    status = 409
    title = "The first request with this key is still running"


class Unavailable(BerthError):
    """Something that Berth depends on does not answer now; trying again is right."""

    code = "unavailable"
    status = 503
    title = "Not available now"
