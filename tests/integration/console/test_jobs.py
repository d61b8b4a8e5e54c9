"""Pages of jobs."""

import re
import uuid
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.core.clock import utc_now
from apps.core.tenancy import system_scope
from apps.tenants.services import quota_set
from apps.workloads.models import Job
from apps.workloads.selectors import job_clone_spec
from tests.spine_world import SYSTEM, make_node, submit
from tests.world import World, job_exits, job_runs

FORM: dict[str, Any] = {
    "name": "digits", "image": "localhost/demo:1", "command": "python train.py --name 'two words'",
    "env": "A=1\nB=x=y\n",
    "inputs": "[]", "gpus": "2", "cpus": "1.5", "memory": "4 GiB", "shm": "256 MiB", "time_limit": "1h 30m",
    "max_retries": "1",
}  # fmt: skip


def form(**changes: Any) -> dict[str, Any]:
    return {**FORM, "idempotency_key": uuid.uuid4().hex, **changes}


def jobs() -> list[Job]:
    with system_scope():
        return list(Job.objects.order_by("id"))


def test_the_form_makes_the_job_once(world: World) -> None:
    browser, sent = world.bob.browser(), form()
    first, second = browser.post("/jobs/new", sent), browser.post("/jobs/new", sent)
    (job,) = jobs()
    assert first["Location"] == second["Location"] == f"/jobs/{job.id}"
    spec = job_clone_spec(actor=world.bob.actor, tenant=world.acme, job_id=job.id)  # type: ignore[arg-type]
    assert spec.command == ("python", "train.py", "--name", "two words")
    assert spec.env == {"A": "1", "B": "x=y"}
    assert (spec.gpus, spec.cpu_milli, spec.memory_mib, spec.shm_mib, spec.time_limit_s) == (2, 1500, 4096, 256, 5400)
    again = browser.post("/jobs/new", {**sent, "name": "other"})
    assert again.status_code == 422
    assert "sent before with other values" in again.content.decode()
    assert len(jobs()) == 1
    fresh = re.search(r'name="idempotency_key" value="(\w+)"', again.content.decode())
    assert fresh is not None
    assert browser.post("/jobs/new", {**sent, "name": "other", "idempotency_key": fresh[1]}).status_code == 302
    assert [j.name for j in jobs()] == ["digits", "other"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "-bad-"}, "name"), ({"image": "No Image"}, "image"), ({"command": "echo 'open"}, "command"),
        ({"env": "NOEQUALS"}, "env"), ({"env": "1A=x"}, "env"), ({"gpus": "65"}, "gpus"),
        ({"memory": "lots"}, "memory"),
        ({"memory": "1 MiB"}, "memory"), ({"shm": "8 GiB"}, "shm"), ({"time_limit": "soon"}, "time_limit"),
        ({"cpus": "0"}, "cpus"), ({"max_retries": "-1"}, "max_retries"),
        ({"inputs": '[{"path": "a", "sha256": "' + "0" * 64 + '"}]'}, "inputs"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_marked_and_nothing_typed_is_lost(world: World, changes: dict[str, str], field: str) -> None:
    answer = world.bob.browser().post("/jobs/new", form(**changes))
    page = answer.content.decode()
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]
    assert "Nothing you typed is lost" in page
    for name, typed in {**FORM, **changes}.items():
        assert answer.context["form"][name].value() == typed
    assert not jobs()


def test_all_wrong_fields_are_marked_at_once(world: World) -> None:
    wrong = {"name": "-", "image": "No", "command": "'", "env": "x", "gpus": "many", "memory": "1", "time_limit": "x"}
    answer = world.bob.browser().post("/jobs/new", form(**wrong))
    assert set(answer.context["form"].errors) == set(wrong)


def test_a_quota_is_said_on_the_form(world: World) -> None:
    browser = world.charlie.browser()
    quota_set(actor=SYSTEM, tenant=world.rival, resource="jobs", ceiling=0, now=utc_now())
    answer = browser.post("/jobs/new", form())
    assert answer.status_code == 409
    assert "quota of 0 jobs is used up" in answer.content.decode()
    assert 'value="digits"' in answer.content.decode()


def test_a_clone_keeps_secrets_hidden_and_their_values(world: World) -> None:
    browser = world.bob.browser()
    browser.post("/jobs/new", form(env="TOKEN=s3cret\nMODE=a", command="a | b && c") | {"shell": "on"})
    source = jobs()[0]
    page = browser.get(f"/jobs/new?clone={source.id}")
    text = page.content.decode()
    assert "s3cret" not in text
    assert page.context["form"]["env"].value() == "TOKEN\nMODE" or page.context["form"]["env"].value() == "MODE\nTOKEN"
    sent = {name: page.context["form"][name].value() or "" for name in page.context["form"].fields}
    sent |= {"env": "TOKEN\nMODE=b", "clone_of": str(source.id), "shell": "on", "name": "copy"}
    assert browser.post("/jobs/new", sent).status_code == 302
    spec = job_clone_spec(actor=world.bob.actor, tenant=world.acme, job_id=jobs()[1].id)  # type: ignore[arg-type]
    assert (spec.env, spec.command) == ({"TOKEN": "s3cret", "MODE": "b"}, ("sh", "-c", "a | b && c"))
    assert "s3cret" not in browser.get(f"/jobs/{source.id}").content.decode()
    assert world.charlie.browser().post("/jobs/new", {**sent, "idempotency_key": "x"}).status_code == 404


def test_the_list_filters_searches_and_pages(world: World) -> None:
    browser = world.bob.browser()
    for i in range(55):
        submit(world.bob.actor, world.acme, name=f"sweep-{i:02}", gpus=0)  # type: ignore[arg-type]
    first = browser.get("/jobs?state=pending&q=sweep")
    assert [r["job"].spec.name for r in first.context["rows"]] == [f"sweep-{i:02}" for i in range(54, 4, -1)]
    second = browser.get(f"/jobs?state=pending&q=sweep&before={first.context['next']}")
    assert [r["job"].spec.name for r in second.context["rows"]] == [f"sweep-{i:02}" for i in range(4, -1, -1)]
    assert "No job matches" in browser.get("/jobs?state=running").content.decode()
    assert "No job matches" in browser.get("/jobs?q=%25").content.decode()
    part = browser.get("/jobs?q=sweep-01", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in part
    assert "sweep-01" in part
    assert browser.get("/jobs?state=nonsense&before=nonsense").status_code == 200


def test_the_empty_list_names_the_next_step(world: World) -> None:
    assert 'href="/jobs/new"' in world.charlie.browser().get("/jobs").content.decode()


def test_the_list_asks_the_database_as_often_for_many_as_for_one(world: World) -> None:
    browser = world.bob.browser()

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert browser.get("/jobs").status_code == 200
        return len(queries)

    job_runs(make_node(), submit(world.bob.actor, world.acme).id)  # type: ignore[arg-type]
    one = count()
    for i in range(6):
        submit(world.bob.actor, world.acme, name=f"j{i}", gpus=0)  # type: ignore[arg-type]
    assert count() == one


def test_the_page_follows_the_job(world: World) -> None:
    node = make_node()
    browser = world.bob.browser()
    job = submit(world.bob.actor, world.acme, gpus=2)  # type: ignore[arg-type]
    waiting = browser.get(f"/jobs/{job.id}").content.decode()
    assert "Waiting for the scheduler to look at it." in waiting
    assert 'data-attempt="0"' in waiting
    attempt = job_runs(node, job.id)
    running = browser.get(f"/jobs/{job.id}/live").content.decode()
    assert 'data-state="running"' in running
    assert f'data-attempt-id="{attempt}"' in running
    assert "gpu-01" in running
    assert running.count("hx-swap-oob") == 3
    job_exits(node, attempt, b"bye\n", exit_code=3)
    ended = browser.get(f"/jobs/{job.id}").content.decode()
    assert "The command ended with exit code 3." in ended
    assert "Requeue" in ended
    assert "Ended: failed, exit code" in ended


def test_cancel_and_requeue_tell_what_became_of_them(world: World) -> None:
    job = submit(world.bob.actor, world.acme)  # type: ignore[arg-type]
    bob = world.bob.browser()
    assert "is cancelled" in bob.post(f"/jobs/{job.id}/cancel", follow=True).content.decode()
    assert "has ended" in bob.post(f"/jobs/{job.id}/cancel", follow=True).content.decode()
    assert "in the queue again" in bob.post(f"/jobs/{job.id}/requeue", follow=True).content.decode()
    assert jobs()[0].state == "pending"


def test_a_member_can_not_cancel_what_an_owner_submitted(world: World) -> None:
    job = submit(world.alice.actor, world.acme)  # type: ignore[arg-type]
    bob = world.bob.browser()
    assert "data-dialog" not in bob.get(f"/jobs/{job.id}").content.decode()
    assert "belongs to alice@acme.test" in bob.post(f"/jobs/{job.id}/cancel", follow=True).content.decode()
    assert jobs()[0].state == "pending"
    assert "is cancelled" in world.alice.browser().post(f"/jobs/{job.id}/cancel", follow=True).content.decode()


def test_nothing_typed_becomes_markup(world: World) -> None:
    job = submit(world.bob.actor, world.acme, command=("echo", "<script>alert(1)</script>"), env={"A": "v"})  # type: ignore[arg-type]
    page = world.bob.browser().get(f"/jobs/{job.id}").content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    search = Client()
    search.force_login(world.bob.user, backend="django.contrib.auth.backends.ModelBackend")  # type: ignore[arg-type]
    assert "<b>" not in search.get("/jobs?q=<b>").content.decode()
