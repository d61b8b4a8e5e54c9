"""Errors of the servers that Berth starts itself."""


class EmbeddedError(Exception):
    """A server could not be prepared, started, stopped or accepted; the message says what to do."""


class AlreadyRunningError(EmbeddedError):
    """A server already runs on this data folder."""
