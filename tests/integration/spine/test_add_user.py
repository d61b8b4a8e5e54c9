"""The command that makes the first people of an installation."""

import io

import pytest
from django.core.management import CommandError, call_command

from apps.accounts.models import User
from apps.accounts.selectors import actor_for, tenants_of

pytestmark = pytest.mark.django_db(transaction=True)


def add(monkeypatch: pytest.MonkeyPatch, password: str, *words: str) -> str:
    monkeypatch.setattr("sys.stdin", io.StringIO(password + "\n"))
    out = io.StringIO()
    call_command("add_user", *words, stdout=out)
    return out.getvalue()


def test_a_person_a_tenant_and_a_second_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    told = add(monkeypatch, "long enough words", "Ada@example.org", "--operator", "--tenant", "vision-lab")
    assert "as an operator" in told
    assert "owner of vision-lab" in told
    told = add(monkeypatch, "another long one", "ada@example.org", "--tenant", "second", "--role", "member")
    assert "ada@example.org exists: password and operator's role stay as they are" in told
    user = User.objects.get(email="ada@example.org")
    assert user.check_password("long enough words")
    assert [t.slug for t in tenants_of(actor_for(user))] == ["second", "vision-lab"]


def test_a_password_must_come(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="No password came"):
        add(monkeypatch, "", "ada@example.org")
    assert not User.objects.exists()


def test_a_weak_password_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="too short"):
        add(monkeypatch, "short", "ada@example.org")
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("email", "tenant", "words"), [("bad", "lab", "such as ada@"), ("a@b.org", "E vil", "lower-case")]
)
def test_names_that_could_not_be_used_are_refused(
    monkeypatch: pytest.MonkeyPatch, email: str, tenant: str, words: str
) -> None:
    with pytest.raises(CommandError, match=words):
        add(monkeypatch, "long enough words", email, "--tenant", tenant)
