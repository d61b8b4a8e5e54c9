"""Input that refuses what it does not know, and the shape of lists."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request

MAX_LIMIT = 200


class Strict(serializers.Serializer[Any]):
    """A serializer that refuses unknown fields by name, so that a typo is never silently ignored."""

    def to_internal_value(self, data: Any) -> Any:
        """Returns the checked values; raises ValidationError naming every wrong and unknown field at once."""
        unknown = [str(name) for name in data if name not in self.fields] if isinstance(data, Mapping) else []
        errors: dict[str, Any] = {name[:80]: "There is no such field." for name in sorted(unknown)[:20]}
        try:
            values = super().to_internal_value(data)
        except serializers.ValidationError as error:
            if not errors or not isinstance(error.detail, dict):
                raise
            raise serializers.ValidationError({**error.detail, **errors}) from error
        if errors:
            raise serializers.ValidationError(errors)
        return values


class PageQuery(Strict):
    """The query of a list."""

    limit = serializers.IntegerField(min_value=1, max_value=MAX_LIMIT, default=50, help_text="How many at most.")
    cursor = serializers.CharField(max_length=200, default="", help_text="`next_cursor` of the page before.")


class AfterQuery(Strict):
    """The query of a list of events."""

    after = serializers.IntegerField(
        min_value=0, max_value=2**53, default=0, help_text="Only events with a greater sequence number."
    )


class Nothing(Strict):
    """An empty body."""


class EventOut(serializers.Serializer[Any]):
    """Something that happened to one object; `seq` counts without gaps per object."""

    seq = serializers.IntegerField()
    name = serializers.CharField()
    data = serializers.JSONField()  # type: ignore[assignment] # a field; DRF takes it off the class
    at = serializers.DateTimeField()


def query_of(request: Request, serializer: type[Strict]) -> dict[str, Any]:
    """Returns the checked query string; raises ValidationError."""
    query = serializer(data=request.query_params.dict())
    query.is_valid(raise_exception=True)
    return dict(query.validated_data)


def body_of(request: Request, serializer: type[Strict], *, partial: bool = False) -> dict[str, Any]:
    """Returns the checked body; raises ValidationError."""
    body = serializer(data=request.data, partial=partial)
    body.is_valid(raise_exception=True)
    return dict(body.validated_data)


def page(
    rows: Sequence[Any], *, limit: int, cursor: str, serializer: type[serializers.Serializer[Any]]
) -> dict[str, Any]:
    """Returns one page of `limit` rows; the caller has asked for one more to learn whether there are more.

    `cursor` is the attribute of a row from which the next page goes on.
    """
    shown = rows[:limit]
    more = len(rows) > limit and bool(shown)
    return {
        "results": serializer(list(shown), many=True).data,
        "next_cursor": str(getattr(shown[-1], cursor)) if more else None,
    }


@functools.cache
def results_of(item: type[serializers.Serializer[Any]], *, paged: bool = False) -> type[serializers.Serializer[Any]]:
    """Returns the schema of `{results: […]}`, with `next_cursor` for a list in pages."""
    fields: dict[str, Any] = {"results": item(many=True), "__doc__": f"A list: {item.__doc__}", "__module__": __name__}
    if paged:
        fields["next_cursor"] = serializers.CharField(allow_null=True, help_text="Null on the last page.")
    name = item.__name__.removesuffix("Out") + ("Page" if paged else "Results")
    return type(name, (serializers.Serializer,), fields)
