"""UUID version 7: ordered by time, of the right version, never twice."""

from apps.core.ids import uuid7


def test_ids_are_version_7_ordered_and_unique() -> None:
    ids = [uuid7() for _ in range(2000)]
    assert {i.version for i in ids} == {7}
    assert len(set(ids)) == len(ids)
    stamps = [i.int >> 80 for i in ids]
    assert stamps == sorted(stamps)
