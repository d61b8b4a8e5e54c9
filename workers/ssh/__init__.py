"""SSH to nodes: the only place that imports paramiko."""

from workers.ssh.client import connect, scan_host_key
from workers.ssh.keys import generate_key_pair
from workers.ssh.types import (
    AuthFailed,
    ByteStream,
    ExecResult,
    HostKey,
    HostKeyMismatch,
    HostUnreachable,
    SshError,
    SshTarget,
    SshTimeout,
    TransferFailed,
    Transport,
)

__all__ = [
    "AuthFailed",
    "ByteStream",
    "ExecResult",
    "HostKey",
    "HostKeyMismatch",
    "HostUnreachable",
    "SshError",
    "SshTarget",
    "SshTimeout",
    "TransferFailed",
    "Transport",
    "connect",
    "generate_key_pair",
    "scan_host_key",
]
