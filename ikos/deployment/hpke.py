"""Envelopes: shares that clients encrypt to the analyzer, and shufflers pass on unread.

HPKE in base mode (RFC 9180): X25519, HKDF-SHA256 and AES-128-GCM. An envelope holds a share of each
coordinate of one block. Its key is bound to the task, window, column and block: it opens for no
other. All envelopes of a block have one size.
"""

from __future__ import annotations

from collections.abc import Iterable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from ikos._validation import integer
from ikos.deployment.task import KEY_BYTES, Task, Window

__all__ = ["PrivateKey", "seal", "unseal"]

LABEL = b"ikos-parties 2 envelope"
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


class PrivateKey:
    """The analyzer's key: ``raw`` has 32 bytes, X25519."""

    def __init__(self, raw: bytes) -> None:
        if len(raw) != KEY_BYTES:
            raise ValueError(f"a private key must be {KEY_BYTES} bytes")
        self.opener = X25519PrivateKey.from_private_bytes(raw)

    @classmethod
    def generate(cls) -> PrivateKey:
        """Return a new key from the operating system's randomness."""
        return cls(X25519PrivateKey.generate().private_bytes_raw())

    @property
    def raw(self) -> bytes:
        """The 32 bytes, to be kept."""
        return self.opener.private_bytes_raw()

    @property
    def public_bytes(self) -> bytes:
        """The public key, for the task."""
        return self.opener.public_key().public_bytes_raw()


def info(window: Window, column: int, block: int) -> bytes:
    """Return what an envelope's key is bound to."""
    integer("column", column, low=1, high=window.task.columns)
    integer("block", block, low=0, high=len(window.task.blocks) - 1)
    return LABEL + window.bound + column.to_bytes(4, "big") + block.to_bytes(4, "big")


def clear_part(shares: Iterable[int], task: Task) -> bytes:
    """Return shares as big-endian bytes of constant length, one after the other."""
    checked = (integer("share", share, low=0, high=task.modulus - 1) for share in shares)
    return b"".join(share.to_bytes(task.width, "big") for share in checked)


def read_clear(part: bytes, task: Task) -> list[int]:
    """Return the shares encoded by bytes; ValueError if one is no element of the group."""
    width = task.width
    shares = [int.from_bytes(part[at : at + width], "big") for at in range(0, len(part), width)]
    if len(part) % width or not shares or max(shares) >= task.modulus:
        raise ValueError("a share must be an element of the group")
    return shares


def seal(shares: Iterable[int], window: Window, column: int, block: int) -> bytes:
    """Return the shares of a block of one column, encrypted to the analyzer."""
    key = X25519PublicKey.from_public_bytes(window.task.public_key)
    part = clear_part(shares, window.task)
    return bytes(_SUITE.encrypt(part, key, info(window, column, block)))


def unseal(envelope: bytes, key: PrivateKey, window: Window, column: int, block: int) -> list[int]:
    """Return the shares in an envelope.

    A ValueError says that it cannot be opened or holds no elements of the group, and quotes
    nothing. An envelope of another length than the block's holds another number of them.
    """
    try:
        part = bytes(_SUITE.decrypt(envelope, key.opener, info(window, column, block)))
    except (InvalidTag, ValueError):
        raise ValueError("an envelope does not open") from None
    return read_clear(part, window.task)
