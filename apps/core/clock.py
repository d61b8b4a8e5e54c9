"""The one place where the portal asks what time it is."""

import datetime as dt


def utc_now() -> dt.datetime:
    """Returns the current time, aware, in UTC."""
    return dt.datetime.now(dt.UTC)
