"""Byte ranges of RFC 9110."""

import pytest

from apps.core.rest.problems import flat_errors
from apps.core.rest.ranges import Unsatisfiable, parse_range


@pytest.mark.parametrize(
    ("header", "length", "wanted"),
    [
        (None, 10, None),
        ("bytes=0-4", 10, (0, 5)),
        ("bytes=5-", 10, (5, 10)),
        ("bytes=-3", 10, (7, 10)),
        ("bytes=-99", 10, (0, 10)),
        ("bytes=8-99", 10, (8, 10)),
        ("bytes=-", 10, None),
        ("bytes=5-4", 10, None),
        ("bytes=0-1,3-4", 10, None),
        ("lines=0-1", 10, None),
        ("bytes=" + "9" * 40 + "-", 10, None),
    ],
)
def test_ranges(header: str | None, length: int, wanted: tuple[int, int] | None) -> None:
    assert parse_range(header, length) == wanted


@pytest.mark.parametrize(("header", "length"), [("bytes=10-", 10), ("bytes=-0", 10), ("bytes=0-", 0), ("bytes=-5", 0)])
def test_a_range_behind_the_end(header: str, length: int) -> None:
    with pytest.raises(Unsatisfiable):
        parse_range(header, length)


def test_errors_are_flattened_by_field() -> None:
    nested = {"name": ["Too long.", "Bad."], "files": [{}, {"path": ["Missing."]}], "command": {"0": ["Blank."]}}
    assert flat_errors(nested) == {"name": "Too long. Bad.", "files.1.path": "Missing.", "command.0": "Blank."}
    assert flat_errors({"non_field_errors": ["Give an object."]}) == {"body": "Give an object."}
    assert flat_errors(["Give an object."]) == {"body": "Give an object."}
