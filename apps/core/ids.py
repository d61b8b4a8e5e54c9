"""Identifiers: UUID version 7, ordered by time and not guessable."""

import os
import time
import uuid


def uuid7() -> uuid.UUID:
    """Returns a new UUID version 7 (RFC 9562): 48 bits of Unix milliseconds, 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds << 80) | int.from_bytes(os.urandom(10), "big")
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    value = (value & ~(0x3 << 62)) | (0x2 << 62)
    return uuid.UUID(int=value)
