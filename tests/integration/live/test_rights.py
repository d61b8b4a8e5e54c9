"""Who may watch what, on every kind of topic; and what happens when rights end."""

import datetime as dt
import uuid

import pytest
from channels.db import database_sync_to_async as in_thread
from django.conf import settings

from apps.accounts.models import Membership
from apps.accounts.tokens import Access
from apps.console.consumers import SIGNED_OUT, Timing
from apps.console.live.topics import KINDS
from apps.core.tenancy import system_scope
from tests.sockets import Socket, connected
from tests.spine_world import make_node, submit
from tests.world import Person, World

QUICK = Timing(recheck=0.1)
HOST = (b"host", b"testserver")


def things(world: World) -> dict[str, str]:
    """Returns one topic of each kind, all of them acme's or the platform's."""
    return {
        "job": f"job/{submit(world.alice.actor, world.acme).id}",  # type: ignore[arg-type]
        "jobs": f"jobs/{world.acme.id}",
        "node": f"node/{make_node().node.id}",
        "nodes": "nodes/platform",
    }


# answers to Alice, Bob, Charlie and Olga
TABLE = {
    "job": (True, True, False, False),
    "jobs": (True, True, False, False),
    "node": (False, False, False, True),
    "nodes": (False, False, False, True),
}


def test_every_kind_has_its_row() -> None:
    assert set(KINDS) == set(TABLE)


async def test_people(world: World) -> None:
    topics = await in_thread(things)(world)
    people = (world.alice, world.bob, world.charlie, world.olga)
    got: dict[str, tuple[bool, ...]] = {}
    for person in people:
        async with connected(person) as socket:
            for kind, topic in topics.items():
                answer = await socket.watch(topic)
                assert answer == {"type": "error", "topic": topic, "code": 404} or answer["type"] == "subscribed"
                got[kind] = (*got.get(kind, ()), answer["type"] == "subscribed")
    assert got == TABLE


async def test_what_is_unknown_is_like_what_is_foreign(world: World) -> None:
    async with connected(world.charlie) as socket:
        for topic in (
            f"job/{uuid.uuid4()}",
            f"jobs/{uuid.uuid4()}",
            "jobs/platform",
            "job/x",
            "secrets/platform",
            "a" * 99,
        ):
            assert await socket.watch(topic) == {"type": "error", "topic": topic, "code": 404}


async def test_nobody_is_sent_away(world: World) -> None:
    for headers in ([(b"authorization", b"Bearer nonsense")], [(b"origin", b"http://testserver"), HOST]):
        socket = Socket(headers)
        assert (await socket.open())["type"] == "websocket.accept"
        assert await socket.closed() == SIGNED_OUT
        await socket.leave()


async def test_a_foreign_page_is_refused(world: World) -> None:
    cookie = await in_thread(session_cookie)(world.bob)
    for origin in (b"http://evil.test", b"http://testserver:81", b"null"):
        socket = Socket([(b"origin", origin), HOST, cookie])
        assert (await socket.open())["type"] == "websocket.close"
        await socket.leave()
    without_origin = Socket([HOST, cookie])
    assert (await without_origin.open())["type"] == "websocket.close"
    await without_origin.leave()


def session_cookie(person: Person) -> tuple[bytes, bytes]:
    """Returns the cookie header of a fresh browser session."""
    key = person.browser().cookies[settings.SESSION_COOKIE_NAME].value
    return (b"cookie", f"{settings.SESSION_COOKIE_NAME}={key}".encode())


async def test_a_browser_watches_until_it_signs_out(world: World) -> None:
    browser = await in_thread(world.bob.browser)()
    key = browser.cookies[settings.SESSION_COOKIE_NAME].value
    headers = [
        (b"origin", b"http://testserver"),
        HOST,
        (b"cookie", f"{settings.SESSION_COOKIE_NAME}={key}".encode()),
    ]
    socket = Socket(headers, timing=QUICK)
    assert (await socket.open())["type"] == "websocket.accept"
    assert (await socket.watch(f"jobs/{world.acme.id}"))["type"] == "subscribed"
    await in_thread(browser.logout)()
    assert await socket.closed() == SIGNED_OUT
    await socket.leave()


@pytest.mark.parametrize("ours", [True, False])
async def test_a_token_in_the_subprotocol(world: World, ours: bool) -> None:
    token = await in_thread(lambda: world.bob.token)()
    offered = [*(["berth.v1"] if ours else []), f"berth.bearer.{token}"]
    socket = Socket([(b"origin", b"http://testserver"), HOST], subprotocols=offered)
    assert (await socket.open())["subprotocol"] == offered[0]
    assert (await socket.watch(f"jobs/{world.acme.id}"))["type"] == "subscribed"
    await socket.leave()


async def test_the_socket_ends_with_its_token(world: World) -> None:
    token = Access()
    token["user_id"] = str(world.bob.user.pk)  # type: ignore[union-attr]
    token["pwd"] = Access(await in_thread(lambda: world.bob.token)())["pwd"]
    token.set_exp(lifetime=dt.timedelta(seconds=2))
    socket = Socket([(b"authorization", f"Bearer {token}".encode())])
    assert (await socket.open())["type"] == "websocket.accept"
    assert (await socket.watch(f"jobs/{world.acme.id}"))["type"] == "subscribed"
    assert await socket.closed() == SIGNED_OUT
    await socket.leave()


async def test_a_member_who_is_removed_hears_no_more(world: World) -> None:
    async with connected(world.bob, QUICK) as socket:
        topic = f"jobs/{world.acme.id}"
        assert (await socket.watch(topic))["type"] == "subscribed"

        def remove() -> None:
            with system_scope():
                Membership.objects.filter(user=world.bob.user).delete()

        await in_thread(remove)()
        assert await socket.next() == {"type": "error", "topic": topic, "code": 404}
        await in_thread(submit)(world.alice.actor, world.acme)
        assert (await socket.watch(topic))["code"] == 404


async def test_a_disabled_person_is_thrown_out(world: World) -> None:
    async with connected(world.bob, QUICK) as socket:
        user = world.bob.user
        assert user is not None
        user.is_active = False
        await in_thread(user.save)()
        assert await socket.closed() == SIGNED_OUT


async def test_an_unknown_address_is_refused_quietly(world: World) -> None:
    socket = Socket(path="/ws/other")
    assert (await socket.open())["type"] == "websocket.close"
    await socket.leave()
