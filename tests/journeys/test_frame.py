"""Keyboard, phone width, languages, adding a node."""

import pytest
from playwright.sync_api import expect

from apps.core.clock import utc_now
from apps.fleet.models import Node
from apps.fleet.services import host_key_offered
from apps.fleet.types import fingerprint
from tests.journeys.conftest import Visit
from tests.spine_world import HOST_KEY, make_node, submit
from tests.world import World

pytestmark = [pytest.mark.journey]


def test_keys_and_a_list_that_moves_by_itself(world: World, visit: Visit) -> None:
    page = visit.page
    visit.sign_in(world.bob)
    expect(page.get_by_text("No jobs yet")).to_be_visible()
    visit.is_live()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    submit(world.bob.actor, world.acme, name="from-elsewhere")  # type: ignore[arg-type]
    expect(page.get_by_role("link", name="from-elsewhere")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Search by name")).to_be_focused()
    page.keyboard.type("elsew")
    page.wait_for_url("**/jobs?q=elsew")
    expect(page.get_by_role("link", name="from-elsewhere")).to_be_visible()
    page.get_by_label("Search by name").fill("nothing")
    expect(page.get_by_text("No job matches")).to_be_visible()
    page.locator("h1").click()
    page.keyboard.press("n")
    page.wait_for_url("**/jobs/new")
    page.locator("h1").click()
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url("**/jobs")


def test_an_operator_adds_a_node(world: World, visit: Visit) -> None:
    page = visit.page
    visit.sign_in(world.olga)
    page.get_by_role("link", name="Add node").first.click()
    page.get_by_label("Address").fill("10.0.0.9")
    page.get_by_label("Name", exact=True).fill("gpu-09")
    page.get_by_role("button", name="Add node").click()
    page.wait_for_url("**/nodes/gpu-09")
    expect(page.get_by_text("fetching the host key")).to_be_visible()
    visit.is_live()
    host_key_offered(node_id=Node.objects.get().id, key_type="ssh-ed25519", key_base64=HOST_KEY, now=utc_now())
    expect(page.locator(".fingerprint")).to_have_text(fingerprint(HOST_KEY))
    page.get_by_role("button", name="They are equal: trust this node").click()
    expect(page.get_by_text("The host key is pinned.")).to_be_visible()
    assert Node.objects.get().host_key == HOST_KEY


def test_pages_fit_a_phone_and_speak_chinese(world: World, visit: Visit) -> None:
    page = visit.page
    page.set_viewport_size({"width": 390, "height": 844})
    make_node()
    job = submit(world.bob.actor, world.acme, name="a-rather-long-name-of-a-job-that-must-not-widen-the-page", gpus=64)  # type: ignore[arg-type]
    visit.sign_in(world.bob)
    page.get_by_title("切换为简体中文").click()
    expect(page.get_by_role("heading", name="作业")).to_be_visible()
    for path in ("/jobs", "/jobs/new", f"/jobs/{job.id}"):
        visit.go(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    expect(page.locator("#job-lead")).to_contain_text("等待调度器处理。")
    page.get_by_role("button", name="菜单").click()
    page.get_by_role("link", name="作业", exact=True).last.click()
    page.wait_for_url("**/jobs")
