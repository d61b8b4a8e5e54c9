"""Signing in, staying signed in, and being thrown out."""

import datetime as dt
from typing import Any

import jwt
import pytest
import time_machine
from django.conf import settings
from django.test import Client

from apps.accounts.checks import refresh_tokens_can_end
from apps.accounts.services import membership_set
from apps.accounts.tokens import backend, tokens_issue
from apps.audit.models import AuditEntry
from apps.core.clock import utc_now
from apps.core.tenancy import system_scope
from tests.spine_world import SYSTEM
from tests.world import PASSWORD, SPEC, Api, World

GOOD = {"email": "Alice@Acme.test", "password": PASSWORD}


def nobody() -> Api:
    return Api(Client(), {})


def with_token(token: str) -> Api:
    return Api(Client(), {"Authorization": f"Bearer {token}"})


def sign_in() -> dict[str, Any]:
    answer = nobody().post("auth/token", GOOD)
    assert answer.status_code == 200
    return dict(answer.json())


def outcomes() -> list[str]:
    with system_scope():
        rows = AuditEntry.objects.filter(action="user.sign_in").order_by("at", "id")
        return list(rows.values_list("outcome", flat=True))


def test_sign_in_me_and_sign_out(world: World) -> None:
    pair = sign_in()
    assert pair["expires_in"] == 600
    me = with_token(pair["access"]).get("me").json()
    assert (me["email"], me["is_operator"]) == ("alice@acme.test", False)
    assert me["tenants"] == [{"id": str(world.acme.id), "slug": "acme", "name": "Acme", "role": "owner"}]
    assert nobody().post("auth/logout", {"refresh": pair["refresh"]}).status_code == 204
    assert nobody().post("auth/refresh", {"refresh": pair["refresh"]}).status_code == 401


def test_the_token_names_its_key(world: World) -> None:
    header = jwt.get_unverified_header(sign_in()["access"])
    assert header == {"alg": "EdDSA", "typ": "JWT", "kid": backend().key_id}


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_a_token_of_another_algorithm_is_refused(world: World, algorithm: str) -> None:
    payload = jwt.decode(world.alice.token, options={"verify_signature": False})
    forged = jwt.encode(payload, settings.SECRET_KEY if algorithm == "HS256" else "", algorithm=algorithm)
    answer = with_token(forged).get("me")
    assert (answer.status_code, answer.json()["code"]) == (401, "token_not_valid")
    assert answer["WWW-Authenticate"].startswith("Bearer")


def test_a_refresh_token_opens_nothing(world: World) -> None:
    assert with_token(tokens_issue(world.alice.user).refresh).get("me").status_code == 401  # type: ignore[arg-type]


def test_an_access_token_ends_after_ten_minutes(world: World) -> None:
    token = world.alice.token
    with time_machine.travel(utc_now() + dt.timedelta(minutes=11), tick=False):
        assert with_token(token).get("me").status_code == 401


def test_refresh_rotates(world: World) -> None:
    first = sign_in()
    second = nobody().post("auth/refresh", {"refresh": first["refresh"]}).json()
    assert second["refresh"] != first["refresh"]
    assert with_token(second["access"]).get("me").status_code == 200
    assert nobody().post("auth/refresh", {"refresh": second["refresh"]}).status_code == 200


def test_a_twin_is_no_thief(world: World) -> None:
    """Two commands of one person refresh at once: the later one is told to read the stored token again."""
    first = sign_in()
    second = nobody().post("auth/refresh", {"refresh": first["refresh"]}).json()
    assert "Read the stored one again" in nobody().post("auth/refresh", {"refresh": first["refresh"]}).json()["detail"]
    assert nobody().post("auth/refresh", {"refresh": second["refresh"]}).status_code == 200


def test_a_stolen_refresh_token_ends_its_sign_in_only(world: World) -> None:
    first, other = sign_in(), sign_in()
    second = nobody().post("auth/refresh", {"refresh": first["refresh"]}).json()
    with time_machine.travel(utc_now() + dt.timedelta(minutes=1), tick=False):
        assert nobody().post("auth/refresh", {"refresh": first["refresh"]}).status_code == 401
        assert nobody().post("auth/refresh", {"refresh": second["refresh"]}).status_code == 401
        assert nobody().post("auth/refresh", {"refresh": other["refresh"]}).status_code == 200


def test_a_new_password_ends_all_tokens(world: World) -> None:
    pair, user = sign_in(), world.alice.user
    assert user is not None
    user.set_password("another good password")
    user.save()
    assert with_token(pair["access"]).get("me").status_code == 401
    assert nobody().post("auth/refresh", {"refresh": pair["refresh"]}).status_code == 401


def test_a_disabled_person_is_out_at_once(world: World) -> None:
    pair, user = sign_in(), world.alice.user
    assert user is not None
    user.is_active = False
    user.save()
    assert with_token(pair["access"]).get("me").status_code == 401
    assert nobody().post("auth/refresh", {"refresh": pair["refresh"]}).status_code == 401
    assert nobody().post("auth/token", GOOD).status_code == 401


def test_ten_failures_lock_out_and_all_are_on_record(world: World) -> None:
    wrong = {**GOOD, "password": "wrong"}
    answers = [nobody().post("auth/token", wrong) for _ in range(11)]
    assert [a.status_code for a in answers[:9]] == [401] * 9
    locked = nobody().post("auth/token", GOOD)
    assert (locked.status_code, locked.json()["code"]) == (429, "locked_out")
    assert locked["Content-Type"] == "application/problem+json"
    assert outcomes()[:9] == ["refused"] * 9
    assert outcomes()[-1] == "locked_out"
    other = nobody().post("auth/token", {"email": "bob@acme.test", "password": PASSWORD})
    assert other.status_code == 200


def test_a_sign_in_is_on_record(world: World) -> None:
    sign_in()
    with system_scope():
        entry = AuditEntry.objects.get(action="user.sign_in")
    assert (entry.outcome, entry.actor_label, entry.address) == ("ok", "alice@acme.test", "127.0.0.1")


def test_a_session_needs_its_csrf_token(world: World) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(world.alice.user, backend="django.contrib.auth.backends.ModelBackend")  # type: ignore[arg-type]
    assert browser.get("/api/v1/jobs").status_code == 200
    refused = browser.post("/api/v1/jobs", SPEC, content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")


def test_several_tenants_must_be_named(world: World) -> None:
    membership_set(actor=SYSTEM, tenant=world.rival, user=world.bob.user, role="member", now=utc_now())  # type: ignore[arg-type]
    api = world.bob.api()
    asked = api.get("jobs")
    assert (asked.status_code, asked.json()["code"]) == (400, "tenant_required")
    assert asked.json()["errors"] == {"Berth-Tenant": "acme, rival"}
    assert api.get("jobs", **{"Berth-Tenant": "rival"}).status_code == 200


def test_the_sessions_choice_of_tenant_counts(world: World) -> None:
    membership_set(actor=SYSTEM, tenant=world.rival, user=world.bob.user, role="member", now=utc_now())  # type: ignore[arg-type]
    browser = world.bob.browser()
    session = browser.session
    session["berth_tenant"] = "rival"
    session.save()
    job = browser.post("/api/v1/jobs", SPEC, content_type="application/json").json()
    assert world.charlie.api().get(f"jobs/{job['id']}").status_code == 200


def test_the_check_asks_for_the_blacklist(settings: Any) -> None:
    assert refresh_tokens_can_end(None) == []
    settings.INSTALLED_APPS = [a for a in settings.INSTALLED_APPS if not a.endswith("token_blacklist")]
    assert [message.id for message in refresh_tokens_can_end(None)] == ["berth.E010"]


def test_the_page_locks_out_too(world: World) -> None:
    page = Client()
    form = {"username": "alice@acme.test", "password": "wrong"}
    for _ in range(10):
        assert page.post("/sign-in", form).status_code == 422
    assert page.post("/sign-in", {**form, "password": PASSWORD}).status_code == 422
    assert nobody().post("auth/token", GOOD).status_code == 429
    assert Client(REMOTE_ADDR="192.0.2.9").post("/sign-in", {**form, "password": PASSWORD}).status_code == 302
