"""PostgreSQL's stored form of a password, so that the password itself never reaches SQL or a server log."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

ITERATIONS = 4096


def verifier(password: str, salt: bytes | None = None) -> str:
    """Return the SCRAM-SHA-256 verifier of an ASCII password (RFC 5802, PostgreSQL's pg_authid format)."""
    salt = secrets.token_bytes(16) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", password.encode("ascii"), salt, ITERATIONS)
    stored = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
    server = _hmac(salted, b"Server Key")
    return f"SCRAM-SHA-256${ITERATIONS}:{_b64(salt)}${_b64(stored)}:{_b64(server)}"


def _hmac(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, "sha256").digest()


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
