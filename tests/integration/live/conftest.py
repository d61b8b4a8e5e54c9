"""The world of the sockets' tests."""

import pytest
from django.core.cache import cache

from tests.world import World, make_world


@pytest.fixture
def world(transactional_db: None) -> World:
    """Two tenants and five people, committed: sockets read in other threads."""
    cache.clear()
    return make_world(jobs=100)
