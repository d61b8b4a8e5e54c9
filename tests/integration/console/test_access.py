"""Who sees which page; what every page carries."""

import re
from pathlib import Path

import pytest
from django.conf import settings

from apps.core.tenancy import system_scope
from apps.workloads.models import Job
from tests.spine_world import make_node, submit
from tests.world import World

TEMPLATES = sorted(Path(settings.BASE_DIR, "templates").rglob("*.html"))
EXPECTED = {  # page → status for Alice, Bob, Charlie, Olga, nobody
    "/": (302, 302, 302, 302, 302),
    "/jobs": (200, 200, 200, 200, 302),
    "/jobs/new": (200, 200, 200, 200, 302),
    "/jobs/{job}": (200, 200, 404, 404, 302),
    "/jobs/{job}/live": (200, 200, 404, 200, 302),
    "/jobs/new?clone={job}": (200, 200, 404, 200, 302),
    "/nodes": (404, 404, 404, 200, 302),
    "/nodes/new": (404, 404, 404, 200, 302),
    "/nodes/gpu-01": (404, 404, 404, 200, 302),
    "/nodes/gpu-01/live": (404, 404, 404, 200, 302),
    "/nodes/gpu-99": (404, 404, 404, 404, 302),
    "/admin/workloads/job/": (302, 302, 302, 200, 302),
    "/admin/audit/auditentry/": (302, 302, 302, 200, 302),
}


@pytest.fixture
def places(world: World) -> dict[str, str]:
    """The job and the node that the pages are about."""
    make_node()
    return {"job": str(submit(world.bob.actor, world.acme).id)}  # type: ignore[arg-type]


def test_each_page_shows_itself_to_whom_it_may(world: World, places: dict[str, str]) -> None:
    browsers = [person.browser() for person in world.people]
    for path, statuses in EXPECTED.items():
        answers = [browser.get(path.format(**places)) for browser in browsers]
        assert tuple(a.status_code for a in answers) == statuses, path
        for answer in answers:
            if path.startswith("/admin/"):
                continue
            policy = answer.headers["Content-Security-Policy"]
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy
            assert not re.search(
                r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|javascript:", answer.content.decode()
            )


def test_who_belongs_to_no_tenant_is_told_and_sees_no_job(world: World, places: dict[str, str]) -> None:
    page = world.olga.browser().get(f"/jobs/{places['job']}/live").content.decode()
    assert "You belong to no tenant yet" in page
    assert "train" not in page


def test_acts_need_post_and_the_right_person(world: World, places: dict[str, str]) -> None:
    job = f"/jobs/{places['job']}"
    for act in ("cancel", "requeue"):
        assert world.bob.browser().get(f"{job}/{act}").status_code == 405
        assert world.charlie.browser().post(f"{job}/{act}").status_code == 404
        assert world.nobody.browser().post(f"{job}/{act}")["Location"].startswith("/sign-in?next=")
    for act in ("trust", "cordon", "uncordon", "drain", "maintenance", "retire"):
        assert world.olga.browser().get(f"/nodes/gpu-01/{act}").status_code == 405
        assert world.alice.browser().post(f"/nodes/gpu-01/{act}").status_code == 404
    with system_scope():
        assert Job.objects.get().state == "pending"


def test_an_htmx_request_without_a_session_leads_to_sign_in(world: World) -> None:
    answer = world.nobody.browser().get("/jobs", headers={"HX-Request": "true"})
    assert (answer.status_code, answer.headers["HX-Redirect"]) == (401, "/sign-in?next=/jobs")


def test_templates_have_no_inline_code() -> None:
    for path in TEMPLATES:
        found = re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|hx-on|javascript:", path.read_text())
        assert found is None, f"{path}: {found}"
