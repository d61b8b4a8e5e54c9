"""The world of the pages' tests."""

import pytest
from django.core.cache import cache

from tests.world import World, make_world


@pytest.fixture
def world(transactional_db: None) -> World:
    """Two tenants and five people, committed: nodes lease their links by the clock of a transaction."""
    cache.clear()
    return make_world(jobs=100)
