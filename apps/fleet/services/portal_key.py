"""The SSH key with which this installation signs in to its nodes."""

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.db import IntegrityError, transaction

from apps.core.crypto import seal, unseal
from apps.fleet.models import PortalKey

_NAME = "portal"
_PURPOSE = "fleet.portal_key"


def _get_or_create() -> PortalKey:
    row = PortalKey.objects.filter(name=_NAME).first()
    if row is not None:
        return row
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    try:
        with transaction.atomic():
            return PortalKey.objects.create(
                name=_NAME,
                public_line=f"{public.decode()} berth-portal",
                private_sealed=seal(private, purpose=_PURPOSE),
            )
    except IntegrityError:  # another process made it in the same moment
        return PortalKey.objects.get(name=_NAME)


def portal_key_public() -> str:
    """Returns the public line for a node's authorized_keys; makes the key pair at the first call."""
    return _get_or_create().public_line


def portal_key_private() -> str:
    """Returns the private key in OpenSSH's PEM form; only the node worker asks for it."""
    return unseal(_get_or_create().private_sealed, purpose=_PURPOSE).decode()
