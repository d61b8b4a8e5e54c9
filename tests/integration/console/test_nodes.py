"""Pages of nodes."""

from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.core.clock import utc_now
from apps.fleet.models import Node
from apps.fleet.services import host_key_offered, link_acquire, preflight_record
from apps.fleet.types import fingerprint
from tests.spine_world import HOST_KEY, make_node
from tests.world import World

FORM = {
    "address": "10.0.0.9",
    "port": "22",
    "ssh_user": "root",
    "name": "gpu-09",
    "password": "",
    "expected_fingerprint": "",
}

WAY = (
    ("cordon", "cordoned"), ("drain", "draining"), ("uncordon", "ready"), ("maintenance", "maintenance"),
    ("uncordon", "ready"), ("cordon", "cordoned"), ("retire", "retired"),
)  # fmt: skip


def test_a_node_is_added_confirmed_and_checked(world: World) -> None:
    browser = world.olga.browser()
    form = browser.get("/nodes/new").content.decode()
    assert "berth-portal" in form
    assert "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub" in form
    assert browser.post("/nodes/new", {**FORM, "password": "once and away"})["Location"] == "/nodes/gpu-09"
    node = Node.objects.get()
    assert node.password_sealed is not None
    assert b"once and away" not in bytes(node.password_sealed)
    assert "fetching the host key" in browser.get("/nodes/gpu-09").content.decode()
    host_key_offered(node_id=node.id, key_type="ssh-ed25519", key_base64=HOST_KEY, now=utc_now())
    seen = fingerprint(HOST_KEY)
    assert f'name="fingerprint" value="{seen}"' in browser.get("/nodes/gpu-09/live").content.decode()
    other = browser.post("/nodes/gpu-09/trust", {"fingerprint": "SHA256:other"}, follow=True)
    assert "another key than the one you confirmed" in other.content.decode()
    assert "is pinned" in browser.post("/nodes/gpu-09/trust", {"fingerprint": seen}, follow=True).content.decode()
    (grant,) = link_acquire(owner="tests#1", limit=10)
    check = {"code": "driver", "ok": False, "title": "No driver", "detail": "", "fix": "install <it>", "warning": True}
    preflight_record(node_id=node.id, link_token=grant.token, checks=[check], now=utc_now())
    page = browser.get("/nodes/gpu-09").content.decode()
    assert "No driver" in page
    assert "install &lt;it&gt;" in page


def test_wrong_values_are_marked_and_the_password_is_not_sent_back(world: World) -> None:
    browser = world.olga.browser()
    wrong = {**FORM, "address": "root@10.0.0.9", "name": "GPU 9", "password": "hunter2"}
    answer = browser.post("/nodes/new", wrong)
    assert answer.status_code == 422
    assert set(answer.context["form"].errors) == {"address", "name"}
    assert "hunter2" not in answer.content.decode()
    assert 'value="GPU 9"' in answer.content.decode()
    browser.post("/nodes/new", FORM)
    twice = browser.post("/nodes/new", {**FORM, "name": "gpu-10"})
    assert set(twice.context["form"].errors) == {"address"}
    assert Node.objects.count() == 1


def test_cordon_drain_uncordon_and_retire(world: World) -> None:
    make_node()
    browser = world.olga.browser()
    for act, state in WAY:
        page = browser.post(f"/nodes/gpu-01/{act}", follow=True).content.decode()
        assert Node.objects.get().state == state
        assert "The same by CLI and API" in page
    assert "gpu-01" not in browser.get("/nodes").content.decode()
    assert "gpu-01" in browser.get("/nodes?state=retired").content.decode()


def test_the_list_asks_the_database_as_often_for_many_as_for_one(world: World) -> None:
    browser = world.olga.browser()
    assert "No nodes yet" in browser.get("/nodes").content.decode()
    make_node()

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert browser.get("/nodes").status_code == 200
        return len(queries)

    one = count()
    for i in range(2, 6):
        make_node(f"gpu-{i:02}", f"10.0.0.{i}")
    assert count() == one
