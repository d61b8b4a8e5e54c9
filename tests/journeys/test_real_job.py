"""The journey that matters most, with nothing played: browser, web process, relay, hub, sshd, container."""

import re

import pytest
from playwright.sync_api import expect

from portal.sandbox import SandboxNode
from tests.journeys.conftest import Visit, until
from tests.spine_live import LiveSpine
from tests.world import World

pytestmark = [pytest.mark.journey, pytest.mark.nodes]

COUNT = "i=0; while :; do i=$((i+1)); echo step $i; sleep 0.2; done"


def test_submit_watch_and_cancel_on_a_real_node(
    world: World, visit: Visit, sandbox_node: SandboxNode, sandbox_image: str
) -> None:
    page = visit.page
    with LiveSpine() as spine:
        spine.ready(sandbox_node)
        visit.sign_in(world.bob)
        visit.go("/jobs/new")
        page.get_by_label("Name").fill("counts")
        page.get_by_label("Image").fill(sandbox_image)
        page.get_by_label("Command").fill(f"sh -c '{COUNT}'")
        page.get_by_role("button", name="Submit job").click()
        page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
        expect(page.locator("#job-live .state").first).to_have_text("running", timeout=30_000)
        until(lambda: "step 1\nstep 2\nstep 3\n" in visit.log(), "the log streams")
        page.locator("#act-cancel").click()
        page.get_by_role("button", name="Cancel job").click()
        expect(page.locator("#job-live .state").first).to_have_text("cancelled", timeout=60_000)
        lines = visit.log().splitlines()
        assert lines == [f"step {n}" for n in range(1, len(lines) + 1)]
