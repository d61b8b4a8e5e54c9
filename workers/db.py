"""Database connections in threads that are not requests or tasks."""

import contextlib
from collections.abc import Iterator

from django.db import connection


@contextlib.contextmanager
def borrowed_connection() -> Iterator[None]:
    """Gives this thread's connection back to the pool afterwards, so that idle threads hold none."""
    try:
        yield
    finally:
        connection.close()
