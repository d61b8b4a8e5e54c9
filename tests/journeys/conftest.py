"""A real browser against a real web process on the test's database."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.hashers import Argon2PasswordHasher
from django.core.cache import cache
from playwright.sync_api import Browser, Page, sync_playwright

from apps.accounts.models import User
from portal.env import REPO_DIR
from tests.world import PASSWORD, Person, World, make_world

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
START_S = 60.0
ALLOW = "DJANGO_ALLOW_ASYNC_UNSAFE"  # playwright's loop lives in the test's thread, beside the test's own queries


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    os.environ[ALLOW] = "1"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield chromium
        chromium.close()
    del os.environ[ALLOW]


@pytest.fixture(scope="session")
def static_files() -> None:
    """The hashed static files, as an installation has them."""
    command = [sys.executable, "manage.py", "collectstatic", "--noinput", "-v", "0"]
    subprocess.run(command, cwd=REPO_DIR, check=True, timeout=120, capture_output=True)


class Web:
    """The web process; it may be killed and started again on the same port."""

    def __init__(self, environ: dict[str, str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._environ = {k: v for k, v in environ.items() if k != ALLOW} | {"BERTH_HTTP_PORT": str(self.port)}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address without a trailing slash."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts it and waits until it answers."""
        command = [sys.executable, "-m", "uvicorn", "portal.asgi:application", "--port", str(self.port)]
        self._process = subprocess.Popen([*command, "--log-level", "warning"], cwd=REPO_DIR, env=self._environ)
        until(self._answers, "the web process answers", START_S)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:  # noqa: S310 - our own address
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def kill(self) -> None:
        """Ends it without a word."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(timeout=20)
            self._process = None


def until(true: Callable[[], Any], what: str, seconds: float = 20.0) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


@pytest.fixture
def web(service_environ: dict[str, str], static_files: None) -> Iterator[Web]:
    """A running web process."""
    server = Web(service_environ)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def world(transactional_db: None) -> World:
    """Two tenants and five people, committed."""
    cache.clear()
    # the web process knows production's hasher only; the tests' own one is cheaper
    made = make_world(jobs=100)
    User.objects.update(password=Argon2PasswordHasher().encode(PASSWORD, "a-salt-for-tests"))
    return made


class Visit:
    """A person at a browser; what its console complains about is kept."""

    def __init__(self, page: Page, web: Web) -> None:
        self.page = page
        self.web = web
        self.complaints: list[str] = []
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._heard)

    def _heard(self, message: Any) -> None:
        # a server that is down is told by the browser itself; what the page says of it is what counts
        expected = ("Failed to load resource", "WebSocket")
        if message.type == "error" and not any(words in message.text for words in expected):
            self.complaints.append(message.text)

    def go(self, path: str) -> None:
        """Opens a page."""
        self.page.goto(self.web.url + path)

    def sign_in(self, person: Person) -> None:
        """Signs in by the form."""
        assert person.user is not None
        self.go("/sign-in")
        self.page.fill("#id_username", person.user.email)
        self.page.fill("#id_password", PASSWORD)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(lambda url: "sign-in" not in url)

    def log(self) -> str:
        """The text of the log view."""
        parts = self.page.eval_on_selector_all(".log-block, .log-now", "els => els.map(e => e.textContent).join('')")
        return str(parts)

    def is_live(self) -> None:
        """Waits until hints can arrive."""
        self.page.wait_for_selector('[data-live][data-state="live"]')


@pytest.fixture
def visit(browser: Browser, web: Web) -> Iterator[Visit]:
    """A fresh browser profile."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB", color_scheme="light")
    made = Visit(context.new_page(), web)
    yield made
    context.close()
    assert made.complaints == []
