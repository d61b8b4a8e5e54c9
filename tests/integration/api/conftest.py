"""The world of the API's tests."""

import pytest
from django.core.cache import cache

from tests.world import World, make_world


@pytest.fixture
def world(db: None) -> World:
    """Two tenants and five people, with fresh throttle counters."""
    cache.clear()
    return make_world(jobs=100)


@pytest.fixture
def lasting_world(transactional_db: None) -> World:
    """The same, committed: for nodes (their links are leased by the clock of a transaction) and for threads."""
    cache.clear()
    return make_world(jobs=100)
