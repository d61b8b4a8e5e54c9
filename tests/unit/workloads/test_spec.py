"""A job's spec: every wrong field is named at once, and good ones pass."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import InvalidInput
from apps.workloads.types import InputFile, JobSpec

GOOD = JobSpec(name="train", image="docker.io/library/python:3.12", command=("python", "-c", "pass"))


def test_a_good_spec_passes() -> None:
    assert GOOD.checked() is GOOD


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""), ("name", "-x"), ("name", "a b"), ("name", "x" * 64), ("image", ""), ("image", "UPPER"),
        ("image", "--privileged"), ("image", "a b"), ("command", ()), ("command", ("a\0b",)), ("gpus", -1),
        ("gpus", 65),
        ("cpu_milli", 0), ("memory_mib", 1), ("time_limit_s", 0), ("max_retries", -1), ("env", {"1A": "x"}),
        ("env", {"A": "x\0"}), ("env", {"A": "x" * 200_000}), ("files", (InputFile("../etc", "0" * 64),)),
        ("files", (InputFile("/etc", "0" * 64),)), ("files", (InputFile("a", "xyz"),)), ("shm_mib", 10**6),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(field: str, value: object) -> None:
    assert list(dataclasses.replace(GOOD, **{field: value}).problems()) == [field]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "image",
    [
        "busybox",
        "localhost/a/b:1",
        "reg.io:5000/x/y@sha256:" + "a" * 64,
        "a__b/c:Latest",
        "ghcr.io/o/n:v1.2-rc",
    ],
)
def test_images_of_all_kinds_pass(image: str) -> None:
    assert dataclasses.replace(GOOD, image=image).problems() == {}


def test_all_wrong_fields_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        dataclasses.replace(GOOD, name="", gpus=-1, command=()).checked()
    assert set(caught.value.errors) == {"name", "gpus", "command"}


@given(st.text(max_size=80), st.text(max_size=80), st.lists(st.text(max_size=20), max_size=4), st.integers())
def test_garbage_is_told_not_raised(name: str, image: str, command: list[str], number: int) -> None:
    spec = JobSpec(name=name, image=image, command=tuple(command), gpus=number, memory_mib=number)
    assert isinstance(spec.problems(), dict)


@pytest.mark.parametrize(
    ("image", "told"),
    [("", "is missing"), ("docker://python", "Leave out docker://"), ("a b", "' ' can't be"), ("Python:3", "python:3?"),
     ("-x", "begin or end with '-'"), ("a" * 300, "longer than 255"), ("python:", "begin or end with ':'")],
)  # fmt: skip
def test_a_wrong_image_is_told_what_is_wrong(image: str, told: str) -> None:
    assert told in dataclasses.replace(GOOD, image=image).problems()["image"]


def test_a_wrong_file_is_named() -> None:
    files = (InputFile(path="fine", sha256="0" * 64), InputFile(path="../out", sha256="0" * 64))
    assert "'../out'" in dataclasses.replace(GOOD, files=files).problems()["files"]
