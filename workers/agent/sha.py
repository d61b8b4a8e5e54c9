"""SHA-256 whose state can be kept on disk, so that a restarted agent need not read freed bytes again."""

from __future__ import annotations

import ctypes
import hashlib
from typing import Optional

_LIBRARIES = ("libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so.10", "libcrypto.so.1.0.0", "libcrypto.so")
_CONTEXT_BYTES = 112  # sizeof(SHA256_CTX): 8 + 2 + 16 + 2 words, part of OpenSSL's ABI since 0.9.8


def _load() -> Optional[ctypes.CDLL]:
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
            library.SHA256_Update.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
            library.SHA256_Final.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
            library.SHA256_Init.argtypes = (ctypes.c_char_p,)
        except (OSError, AttributeError):
            continue
        return library
    return None


_LIBRARY = _load()


class Sha256:
    """`state` is None where no libcrypto is found; the digest is right all the same."""

    def __init__(self, state: Optional[bytes] = None) -> None:
        self._plain = hashlib.sha256()
        self._context = ctypes.create_string_buffer(_CONTEXT_BYTES)
        if _LIBRARY is not None:
            _LIBRARY.SHA256_Init(self._context)
        if state is not None:
            if _LIBRARY is None or len(state) != _CONTEXT_BYTES:
                raise ValueError("this SHA-256 state can't be resumed here")
            self._context.raw = state

    @property
    def state(self) -> Optional[bytes]:
        """The state after the bytes so far."""
        return self._context.raw if _LIBRARY is not None else None

    def update(self, data: bytes) -> None:
        """Add bytes."""
        if _LIBRARY is None:
            self._plain.update(data)
        else:
            _LIBRARY.SHA256_Update(self._context, data, len(data))

    def hexdigest(self) -> str:
        """The digest of the bytes so far; more may follow."""
        if _LIBRARY is None:
            return self._plain.hexdigest()
        copy = ctypes.create_string_buffer(self._context.raw, _CONTEXT_BYTES)
        digest = ctypes.create_string_buffer(32)
        _LIBRARY.SHA256_Final(digest, copy)
        return digest.raw.hex()
