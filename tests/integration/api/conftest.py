"""The world of the API's tests."""

import pytest
from django.core.cache import cache

from tests.world import World, make_world


@pytest.fixture
def world(db: None) -> World:
    """Two tenants and five people, with fresh throttle counters."""
    cache.clear()
    return make_world(jobs=100)
