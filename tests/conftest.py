"""Fixtures for all tests; the servers themselves come from tests/plugin.py."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def service_environ(transactional_db: None) -> dict[str, str]:
    """Environment for a real process (web, relay, worker) that shall work on this test's database."""
    from django.db import connection

    from portal.embedded.external import with_database_name

    name = str(connection.settings_dict["NAME"])
    return {**os.environ, "DATABASE_URL": with_database_name(os.environ["DATABASE_URL"], name)}
