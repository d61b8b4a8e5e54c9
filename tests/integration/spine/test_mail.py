"""Mail at a job's end: a row first, then a real SMTP server; one that is away is tried again, a twin is not sent."""

import datetime as dt
import email
import socket
from collections.abc import Iterator
from email.message import EmailMessage, Message
from email.policy import default

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session
from django.conf import settings as django_settings
from django.core.mail import get_connection
from pytest_django.fixtures import Settings

from apps.core.clock import utc_now
from apps.core.models import OutboxMessage
from apps.core.tenancy import system_scope
from apps.notifications.models import Notification
from apps.notifications.selectors import notification_ids_due
from apps.notifications.services import notification_create, notification_deliver
from tests.spine_world import later, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Letters:
    """An SMTP server's handler that keeps what it gets, or refuses."""

    def __init__(self) -> None:
        self.got: list[Message] = []
        self.refuse = False

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - its name
        if self.refuse:
            return "451 try again later"
        content = envelope.content
        self.got.append(email.message_from_bytes(content if isinstance(content, bytes) else b"", policy=default))
        return "250 taken"


@pytest.fixture
def letters(settings: Settings) -> Iterator[Letters]:
    handler = Letters()
    controller = Controller(handler, hostname="127.0.0.1", port=free_port())
    controller.start()
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST = "127.0.0.1"
    settings.EMAIL_PORT = controller.port
    yield handler
    controller.stop()


def write(key: str = "k", subject: str = "Job train succeeded") -> Notification:
    tenant = make_tenant(f"t-{key}")
    for _ in range(2):  # the same cause twice
        with system_scope():
            notification_create(
                tenant_id=tenant.id,
                dedupe_key=key,
                address="ada@example.org",
                subject=subject,
                body="Log: http://x/y\n",
            )
    with system_scope():
        return Notification.objects.get(dedupe_key=key)


def test_a_message_goes_out_once(letters: Letters) -> None:
    row = write(subject="作业 train 成功")
    assert OutboxMessage.objects.filter(topic="notification.deliver").count() == 1
    assert notification_deliver(notification_id=row.id, now=utc_now())
    assert not notification_deliver(notification_id=row.id, now=later(9000))
    (letter,) = letters.got
    assert isinstance(letter, EmailMessage)
    assert (letter["Subject"], letter["To"]) == ("作业 train 成功", "ada@example.org")
    assert letter["Message-ID"] == f"<{row.id}@berth>"
    assert "http://x/y" in letter.get_content()
    assert letter["From"] == django_settings.DEFAULT_FROM_EMAIL


def test_a_refusing_server_is_tried_again_later(letters: Letters) -> None:
    row = write()
    letters.refuse = True
    assert not notification_deliver(notification_id=row.id, now=utc_now())
    with system_scope():
        row.refresh_from_db()
    assert "451" in row.last_error
    assert notification_ids_due(now=utc_now(), limit=10) == []
    letters.refuse = False
    assert notification_ids_due(now=row.next_try_at + dt.timedelta(seconds=1), limit=10) == [row.id]
    assert notification_deliver(notification_id=row.id, now=row.next_try_at)
    assert len(letters.got) == 1


def test_a_message_is_given_up_and_says_so(settings: Settings) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9  # nobody listens there
    assert get_connection().__class__.__module__.endswith("smtp")
    row = write()
    for _ in range(8):
        with system_scope():
            row.refresh_from_db()
        notification_deliver(notification_id=row.id, now=row.next_try_at)
    with system_scope():
        row.refresh_from_db()
    assert (row.status, row.tries) == ("failed", 8)
    assert "refused" in row.last_error
    assert notification_ids_due(now=later(10**6), limit=10) == []
