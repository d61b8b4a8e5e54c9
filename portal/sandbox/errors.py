"""The one error the sandbox raises; its text tells what to do."""


class SandboxError(Exception):
    """An operation of the sandbox failed or was refused; the message is meant for people."""


class DamagedStateError(SandboxError):
    """What the state folder says of a cluster or node is missing or unreadable."""
