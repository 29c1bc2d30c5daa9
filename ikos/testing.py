"""Reproducible randomness for tests, papers and lessons: nothing drawn from it is private."""

from __future__ import annotations

import hashlib

from ikos._validation import integer, quote
from ikos.primitives.randomness import Expanded

__all__ = ["DeterministicRandom"]


class DeterministicRandom(Expanded):
    """A reproducible source, from any non-negative integer, with the interface of the secure one.

    The seed reveals every share and every noise value drawn from it: use it to reproduce a run,
    never to protect data. The same seed and the same calls in the same order give the same draws.
    It can be neither copied nor pickled: pass on a seed, or ``streams``.

    Examples
    --------
    >>> DeterministicRandom(7).integer(1000) == DeterministicRandom(7).integer(1000)
    True
    """

    def __init__(self, seed: int) -> None:
        value = self._seed = integer("seed", seed, low=0)
        material = value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")
        label = b"ikos.testing.DeterministicRandom" + material
        super().__init__(hashlib.sha512(label).digest())

    def __repr__(self) -> str:
        return f"DeterministicRandom({quote(self._seed)})"
