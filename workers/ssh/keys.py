"""Key pairs for nodes."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat


def generate_key_pair(comment: str) -> tuple[str, str]:
    """Return a new Ed25519 pair: (private key as OpenSSH PEM, public key as one authorized_keys line)."""
    if "\n" in comment or "\r" in comment:
        raise ValueError("a key comment is one line")
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return private, f"{public} {comment}".strip()
