"""Secrets at rest: AES-256-GCM with the row's identity as additional data.

The sealed form is `version (1 byte) | nonce (12 bytes) | ciphertext and tag`. Issue 5 brings keys per tenant
behind the same two functions; the version byte is its door.
"""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

_VERSION = b"\x01"


class SealBroken(Exception):
    """The bytes were not sealed with this key for this purpose, or were changed."""


def seal(plain: bytes, *, purpose: str) -> bytes:
    """Encrypts; `purpose` (such as `job.env:<id>`) must be given again to open."""
    nonce = os.urandom(12)
    return _VERSION + nonce + AESGCM(settings.BERTH_MASTER_KEY).encrypt(nonce, plain, purpose.encode())


def unseal(sealed: bytes | memoryview, *, purpose: str) -> bytes:
    """Decrypts what `seal` made; raises SealBroken."""
    sealed = bytes(sealed)
    if sealed[:1] != _VERSION:
        raise SealBroken(f"unknown seal version for {purpose}")
    try:
        return AESGCM(settings.BERTH_MASTER_KEY).decrypt(sealed[1:13], sealed[13:], purpose.encode())
    except InvalidTag as error:
        raise SealBroken(f"the seal of {purpose} does not open with this installation's key") from error
