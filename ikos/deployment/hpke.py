"""Envelopes: shares that clients encrypt to the analyzer, and shufflers pass on unread.

HPKE in base mode (RFC 9180): X25519, HKDF-SHA256 and AES-128-GCM. An envelope's key is bound to its
task and column: it opens for no other. All envelopes of a task have one size.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from ikos._validation import integer
from ikos.deployment.task import KEY_BYTES, Task

__all__ = ["PrivateKey", "seal", "unseal"]

LABEL = b"ikos-parties 1 envelope"
TAG_BYTES = 16
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


def info(task: Task, column: int) -> bytes:
    """Return what an envelope's key is bound to: the task and the column."""
    return LABEL + task.id + integer("column", column, low=1, high=task.columns).to_bytes(4, "big")


def size(task: Task) -> int:
    """Return the bytes of each envelope of a task."""
    return KEY_BYTES + task.share_bytes + TAG_BYTES


def clear_part(share: int, task: Task) -> bytes:
    """Return a share as big-endian bytes of constant length."""
    return integer("share", share, low=0, high=task.modulus - 1).to_bytes(task.share_bytes, "big")


def read_clear(part: bytes, task: Task) -> int:
    """Return the share encoded by bytes; ValueError if they encode none."""
    share = int.from_bytes(part, "big")
    if len(part) != task.share_bytes or share >= task.modulus:
        raise ValueError("a share must be an element of the group")
    return share


def seal(share: int, task: Task, column: int) -> bytes:
    """Return a share of one column, encrypted to the analyzer of a task."""
    key = X25519PublicKey.from_public_bytes(task.public_key)
    return bytes(_SUITE.encrypt(clear_part(share, task), key, info(task, column)))


def unseal(envelope: bytes, key: PrivateKey, task: Task, column: int) -> int:
    """Return the share in an envelope.

    A ValueError says that it cannot be opened or holds no element of the group, and quotes nothing.
    """
    try:
        part = bytes(_SUITE.decrypt(envelope, key.opener, info(task, column)))
    except (InvalidTag, ValueError):
        raise ValueError("an envelope does not open") from None
    return read_clear(part, task)
