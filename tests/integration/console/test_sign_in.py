"""Signing in and out, and the frame's switches."""

from django.test import Client

from apps.accounts.models import User
from apps.accounts.services import membership_set
from apps.audit.models import AuditEntry
from apps.core.clock import utc_now
from apps.core.tenancy import system_scope
from tests.spine_world import SYSTEM, submit
from tests.world import PASSWORD, World

FORM = {"username": "Bob@acme.test", "password": PASSWORD}


def outcomes() -> list[tuple[str, str]]:
    with system_scope():
        return list(
            AuditEntry.objects.filter(action="user.sign_in").order_by("at").values_list("object_label", "outcome")
        )


def test_sign_in_goes_where_one_wanted_and_is_on_record(world: World) -> None:
    browser = Client()
    wrong = browser.post("/sign-in", {**FORM, "password": "no"})
    assert wrong.status_code == 422
    assert 'value="bob@acme.test"' in wrong.content.decode()
    right = browser.post("/sign-in?next=/jobs/new", {**FORM, "next": "/jobs/new"})
    assert right["Location"] == "/jobs/new"
    assert outcomes() == [("bob@acme.test", "refused"), ("bob@acme.test", "ok")]
    assert browser.get("/sign-out").status_code == 405
    assert browser.post("/sign-out")["Location"] == "/sign-in"
    assert browser.get("/jobs")["Location"] == "/sign-in?next=/jobs"


def test_sign_in_never_leads_away_and_needs_its_token(world: World) -> None:
    assert Client().post("/sign-in", {**FORM, "next": "https://evil.test/"})["Location"] == "/"
    strict = Client(enforce_csrf_checks=True)
    refused = strict.post("/sign-in", FORM)
    assert refused.status_code == 403
    assert "The form has expired" in refused.content.decode()


def test_many_failures_lock_out_even_the_right_password(world: World) -> None:
    browser = Client()
    for _ in range(10):
        browser.post("/sign-in", {**FORM, "password": "no"})
    answer = browser.post("/sign-in", FORM)
    assert answer.status_code in (403, 422, 429)
    assert browser.get("/jobs").status_code == 302


def test_language_and_theme_are_kept(world: World) -> None:
    browser = world.bob.browser()
    answer = browser.post("/switch/language", {"language": "zh-hans", "next": "/jobs?state=running"})
    assert answer["Location"] == "/jobs?state=running"
    page = browser.get("/jobs").content.decode()
    assert '<html lang="zh-Hans"' in page
    assert "新建作业" in page
    assert User.objects.get(email="bob@acme.test").language == "zh-hans"
    assert browser.post("/switch/theme", {"theme": "dark", "next": "//evil.test/"})["Location"] == "/"
    assert 'data-bs-theme="dark"' in browser.get("/jobs").content.decode()
    browser.post("/switch/language", {"language": "xx"})
    assert "新建作业" in browser.get("/jobs").content.decode()


def test_tenant_switch_shows_only_own_tenants(world: World) -> None:
    assert world.alice.user is not None
    membership_set(actor=SYSTEM, tenant=world.rival, user=world.alice.user, role="member", now=utc_now())
    mine = submit(world.alice.actor, world.acme, name="acme-job")  # type: ignore[arg-type]
    submit(world.charlie.actor, world.rival, name="rival-job")  # type: ignore[arg-type]
    browser = world.alice.browser()
    assert "acme-job" in browser.get("/jobs").content.decode()
    browser.post("/switch/tenant", {"tenant": "rival"})
    page = browser.get("/jobs").content.decode()
    assert "rival-job" in page
    assert "acme-job" not in page
    # a link from a mail finds the job in the person's other tenant and goes there
    assert browser.get(f"/jobs/{mine.id}").status_code == 200
    assert "acme-job" in browser.get("/jobs").content.decode()
    assert world.bob.browser().post("/switch/tenant", {"tenant": "rival"}).status_code == 404
