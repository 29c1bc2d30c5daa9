"""Reproducible randomness for tests, papers and lessons: nothing drawn from it is private."""

from __future__ import annotations

import hashlib
import threading

from ikos._validation import integer
from ikos.randomness import KEY_BYTES, NONCE_BYTES, Keystream, RandomSource

__all__ = ["DeterministicRandom"]


class DeterministicRandom(RandomSource):
    """A reproducible source with the interface of the secure one, and not private.

    Whoever knows or guesses the seed recovers every share and every noise value drawn from it.
    Use it to reproduce a run, never to protect data. The same seed and the same calls in the same
    order give the same draws; threads that share one source take from one stream in the order in
    which they happen to ask.

    Parameters
    ----------
    seed : int
        Any non-negative integer.

    Examples
    --------
    >>> DeterministicRandom(7).integer(1000) == DeterministicRandom(7).integer(1000)
    True
    """

    def __init__(self, seed: int) -> None:
        value = integer("seed", seed, low=0)
        material = value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")
        self._root = hashlib.sha512(b"ikos.testing.DeterministicRandom" + material).digest()
        self._rekeys = 0
        self._lock = threading.RLock()  # a signal handler may draw while its thread draws
        self._keystream = Keystream(self._next_seed)

    def _next_seed(self) -> bytes:
        self._rekeys += 1
        block = hashlib.sha512(self._root + self._rekeys.to_bytes(8, "big")).digest()
        return block[: KEY_BYTES + NONCE_BYTES]

    def _read_into(self, out: memoryview) -> None:
        with self._lock:
            self._keystream.read_into(out)

    def _read(self, count: int) -> bytes:
        with self._lock:
            return self._keystream.read(count)
