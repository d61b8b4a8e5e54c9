"""Keys and fingerprints."""

from __future__ import annotations

import pytest

from workers.ssh import HostKey, generate_key_pair
from workers.ssh.client import _key_types, _load_key

OFFERED = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")


def test_a_pair_fits_and_can_be_loaded() -> None:
    private, public = generate_key_pair("berth node 1")
    kind, key, *comment = public.split(" ")
    loaded = _load_key(private)
    assert (loaded.get_name(), loaded.get_base64()) == (kind, key)
    assert comment == ["berth", "node", "1"]
    assert HostKey(kind, key).fingerprint == loaded.fingerprint
    assert HostKey(kind, key).fingerprint.startswith("SHA256:")


def test_two_pairs_differ_and_a_comment_is_one_line() -> None:
    assert generate_key_pair("a")[0] != generate_key_pair("a")[0]
    with pytest.raises(ValueError, match="one line"):
        generate_key_pair("a\nssh-rsa evil")


def test_the_pinned_type_alone_is_asked_for() -> None:
    assert _key_types("ssh-ed25519", OFFERED) == ["ssh-ed25519"]
    assert _key_types("ssh-rsa", OFFERED) == ["rsa-sha2-512", "rsa-sha2-256"]
    assert _key_types("unheard-of", OFFERED) == list(OFFERED)
