"""Uploads."""

import hashlib
from pathlib import Path
from typing import Any

from django.conf import settings

from tests.world import SPEC, World

DATA = bytes(range(256)) * 5000


def upload(world: World, data: bytes, **headers: str) -> Any:
    api = world.bob.api()
    return api.client.post(
        "/api/v1/files", data, content_type="application/octet-stream", headers={**api.headers, **headers}
    )


def leftovers() -> list[Path]:
    return [path for path in Path(settings.BERTH_BLOB_DIR).glob("uploads/**/*") if path.is_file()]


def test_a_file_is_kept_once_and_a_job_may_name_it(world: World) -> None:
    first, second = upload(world, DATA), upload(world, DATA)
    digest = hashlib.sha256(DATA).hexdigest()
    assert first.status_code == second.status_code == 201
    assert first.json() == second.json() == {"sha256": digest, "size": len(DATA)}
    job = world.bob.api().post("jobs", {**SPEC, "files": [{"path": "data/x.bin", "sha256": digest}]})
    assert job.json()["spec"]["files"] == [{"path": "data/x.bin", "sha256": digest, "size": len(DATA)}]
    assert leftovers() == []


def test_a_foreign_file_can_not_be_named(world: World) -> None:
    digest = upload(world, b"acme's own").json()["sha256"]
    answer = world.charlie.api().post("jobs", {**SPEC, "files": [{"path": "x", "sha256": digest}]})
    assert answer.status_code == 422
    assert answer.json()["errors"] == {"files": "Upload first: x."}


def test_an_empty_file(world: World) -> None:
    assert upload(world, b"").json() == {"sha256": hashlib.sha256(b"").hexdigest(), "size": 0}


def test_too_large_leaves_nothing(world: World, settings: Any) -> None:
    settings.BERTH_FILE_LIMIT_BYTES = 1000
    announced = upload(world, DATA)
    assert (announced.status_code, announced.json()["code"]) == (413, "file_too_large")
    assert leftovers() == []
