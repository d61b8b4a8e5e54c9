"""Fixtures for all tests; the servers themselves come from tests/plugin.py."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from portal.embedded.identity import known_server_user

# A deadline per example would be a timed assertion, red on a busy machine.
hypothesis.settings.register_profile("berth", deadline=None)
hypothesis.settings.load_profile("berth")


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Callable[[str], Path]]:
    """Return a maker of fresh folders that the servers' user may enter (pytest's own are closed to all but us)."""
    base = Path(os.environ["BERTH_DATA_DIR"]).parent
    user = known_server_user("berth")
    if user is not None and not user.can_enter(base):  # the repository lies in a closed folder such as /root
        base = Path("/var/tmp")
    made = Path(tempfile.mkdtemp(dir=base))
    made.chmod(0o711)

    def make(name: str) -> Path:
        folder = Path(tempfile.mkdtemp(dir=made, prefix=f"{name}-"))
        folder.chmod(0o711)
        return folder

    yield make
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def service_environ(transactional_db: None) -> dict[str, str]:
    """Environment for a real process (web, relay, worker) that shall work on this test's database."""
    from django.db import connection

    from portal.embedded.external import with_database_name

    name = str(connection.settings_dict["NAME"])
    return {**os.environ, "DATABASE_URL": with_database_name(os.environ["DATABASE_URL"], name)}
