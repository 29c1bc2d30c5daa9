"""Private keys, and the decryption of envelopes; as a program, on a separate core.

`ikos.deployment.openers` runs this file by itself: it imports nothing of ikos, so that a process is
ready in a moment.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, lru_cache
from itertools import chain
from operator import add
from typing import BinaryIO, Final, NamedTuple

from cryptography import __version__ as _version
from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import (
    AEAD,
    KDF,
    KEM,
    MLKEM768X25519PrivateKey,
    MLKEM768X25519PublicKey,
    Suite,
)

KEY_BYTES = 32
TAG_BYTES = 16
_SEED = 64  # bytes of ML-KEM's part of an expanded key
_EXPANDED = 1184  # and of a public key


class Kem(NamedTuple):
    """A key encapsulation mechanism: its name for people, and lengths in bytes.

    ``public`` is that of a public key, and ``sealed`` that of the encapsulated key in an envelope.
    """

    words: str
    public: int
    sealed: int


X25519: Final = "x25519"
HYBRID: Final = "mlkem768-x25519"
KEMS = {HYBRID: Kem("ML-KEM-768 and X25519", 1216, 1120), X25519: Kem("X25519", 32, 32)}


@cache
def suite(kem: str) -> Suite:
    """Return the suite of HPKE with a KEM; ValueError if it is unavailable."""
    if kem == X25519:
        return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
    try:
        MLKEM768PrivateKey.from_seed_bytes(bytes(_SEED))
    except UnsupportedAlgorithm:
        raise ValueError(
            f"kem must be {X25519!r} with cryptography {_version}, which has no ML-KEM here "
            f"(version 48 has), got {HYBRID!r}"
        ) from None
    return Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


class PrivateKey:
    """The analyzer's key of some windows: ``raw`` has 32 bytes, for every KEM.

    Both keys of the hybrid are derived from them as in draft-irtf-cfrg-concrete-hybrid-kems.
    """

    def __init__(self, raw: bytes, kem: str = HYBRID) -> None:
        if len(raw) != KEY_BYTES:
            raise ValueError(f"a private key must be {KEY_BYTES} bytes")
        suite(kem)
        self.raw, self.kem = raw, kem
        self.opener: X25519PrivateKey | MLKEM768X25519PrivateKey
        if self.kem == X25519:
            self.opener = curve = X25519PrivateKey.from_private_bytes(raw)
            self.public_bytes = curve.public_key().public_bytes_raw()
            return
        expanded = hashlib.shake_256(raw).digest(_SEED + KEY_BYTES)
        lattice = MLKEM768PrivateKey.from_seed_bytes(expanded[:_SEED])
        curve = X25519PrivateKey.from_private_bytes(expanded[_SEED:])
        self.opener = MLKEM768X25519PrivateKey(lattice, curve)
        parts = (lattice.public_key(), curve.public_key())
        self.public_bytes = b"".join(part.public_bytes_raw() for part in parts)

    @classmethod
    def generate(cls, kem: str = HYBRID) -> PrivateKey:
        """Return a new key from the operating system's randomness."""
        return cls(X25519PrivateKey.generate().private_bytes_raw(), kem)


@lru_cache(maxsize=8)
def public_key(data: bytes, kem: str) -> X25519PublicKey | MLKEM768X25519PublicKey:
    """Return the public key that some bytes encode."""
    if kem == X25519:
        return X25519PublicKey.from_public_bytes(data)
    suite(kem)
    lattice = MLKEM768PublicKey.from_public_bytes(data[:_EXPANDED])
    return MLKEM768X25519PublicKey(lattice, X25519PublicKey.from_public_bytes(data[_EXPANDED:]))


def read_elements(part: bytes, width: int, modulus: int) -> list[int]:
    """Return the elements encoded by bytes; ValueError if one is not an element of the group."""
    shares = [int.from_bytes(part[at : at + width], "big") for at in range(0, len(part), width)]
    if len(part) % width or not shares or max(shares) >= modulus:
        raise ValueError("a share must be an element of the group")
    return shares


def unsealed(envelope: bytes, key: PrivateKey, info: bytes) -> bytes:
    """Return an envelope's content; ValueError, which quotes nothing, if it cannot be decrypted."""
    try:
        return bytes(suite(key.kem).decrypt(envelope, key.opener, info))
    except (InvalidTag, ValueError):
        raise ValueError("an envelope could not be decrypted") from None


def _opened(
    key: PrivateKey, width: int, modulus: int, data: bytes, info: str, size: int
) -> Iterator[list[int]]:
    """Yield the elements in each envelope that contains elements of the group.

    ``data`` has envelopes of this size, one after the other; ``info``, in hex, is their context.
    """
    bound = bytes.fromhex(info)
    for start in range(0, len(data), size):
        with suppress(ValueError):
            yield read_elements(unsealed(data[start : start + size], key, bound), width, modulus)


def add_up(
    key: PrivateKey, width: int, modulus: int, data: bytes, info: str, size: int, coordinates: int
) -> tuple[int, list[int]]:
    """Return how many envelopes contain elements of the group, and the sums of their shares."""
    opened, totals = 0, [0] * coordinates
    for shares in _opened(key, width, modulus, data, info, size):
        totals = list(map(add, totals, shares))
        opened += 1
    return opened, totals


def collect(
    key: PrivateKey, width: int, modulus: int, data: bytes, info: str, size: int, _: int
) -> tuple[int, list[int]]:
    """Return how many envelopes contain elements of the group, and all of these."""
    elements = list(_opened(key, width, modulus, data, info, size))
    return len(elements), list(chain.from_iterable(elements))


WORK = {"add up": add_up, "collect": collect}
"""What can be done with the contents of envelopes, by name."""


def main(source: BinaryIO, target: BinaryIO) -> None:
    """Open envelopes until the source ends, as it does when the program that writes to it does.

    A line of JSON comes first, with the key, the group and the work, and one before each chunk of
    envelopes; each answer is a line.
    """
    raw, kem, width, modulus, work = json.loads(source.readline())
    key = PrivateKey(bytes.fromhex(raw), kem)
    while line := source.readline():
        length, info, size, coordinates = json.loads(line)
        data = source.read(length)
        answer = WORK[work](key, width, modulus, data, info, size, coordinates)
        target.write(json.dumps(answer).encode() + b"\n")
        target.flush()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
