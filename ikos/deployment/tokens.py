"""Who may report: each client has a secret, and from it a token per party, used once per window.

A party knows only the digests of its own tokens, and a token for one party is useless at another:
no party can report, or use a token, on a client's behalf.
"""

from __future__ import annotations

import hashlib
import hmac
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ikos.deployment.task import Task
from ikos.deployment.wire import decoded, encoded

__all__ = ["for_party", "fresh"]

SECRET_BYTES = 32
LABEL = b"ikos-parties 3 token"
_DIGEST_BYTES = 32


def fresh() -> bytes:
    """Return a new secret."""
    return os.urandom(SECRET_BYTES)


def to_text(secret: bytes) -> str:
    """Return a secret or a token as text for a file or a header."""
    return encoded(secret)


def from_text(text: str) -> bytes:
    """Return the secret or token that a text encodes; a ValueError does not quote the text."""
    return decoded(text, SECRET_BYTES, "a token")


def for_party(secret: bytes, task: Task, party: int) -> bytes:
    """Return the token that a client with this secret shows to a party of a task."""
    return hmac.digest(secret, LABEL + task.id + party.to_bytes(4, "big"), "sha256")


def digest(token: bytes) -> bytes:
    """Return the digest of a token, which is all that a party keeps."""
    return hashlib.sha256(token).digest()


class TokenList:
    """The digests of the tokens that a party accepts, sorted, in a memory-mapped file.

    Their order reveals nothing about the tokens, or about the order at any other party.
    """

    def __init__(self, path: Path) -> None:
        length = path.stat().st_size
        if not length or length % _DIGEST_BYTES:
            raise ValueError(f"{path} must hold digests of {_DIGEST_BYTES} bytes, got {length}")
        with path.open("rb") as file:
            self._digests = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        step = _DIGEST_BYTES // 8
        self._heads = np.frombuffer(self._digests, ">u8")[::step].astype(np.uint64)

    @staticmethod
    def pack(tokens: Iterable[bytes]) -> bytes:
        """Return the file content for some tokens."""
        return b"".join(sorted(map(digest, tokens)))

    def __contains__(self, wanted: bytes) -> bool:
        head = np.uint64(int.from_bytes(wanted[:8], "big"))
        place = int(self._heads.searchsorted(head))
        while place < len(self._heads) and self._heads[place] == head:
            start = _DIGEST_BYTES * place
            if self._digests[start : start + _DIGEST_BYTES] == wanted:
                return True
            place += 1
        return False
