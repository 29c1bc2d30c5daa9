"""What helpers see and cost: a vector for the analyzer, and a seed for each helper.

A user's shares are a vector for the analyzer and, for each helper, the keystream of a seed. The
only loss beyond assumptions is that a keystream of a block cipher never repeats a block, where
uniform bits may. The theorem is in docs/helpers.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import gmpy2

from ikos.counts.types import MessageCount
from ikos.counts.vectors import Layout
from ikos.numeric.rounding import UP, float_down, rounding
from ikos.results.text import hundredths

SEED_BYTES = 32
"""Length of a seed."""

CHUNK_BYTES = 1 << 20
"""Bytes of a keystream under one key."""

_BLOCK_BYTES, _BLOCK_BITS = 16, 128  # of AES

THEOREM = "additive shares with one honest party, docs/helpers.md (machine-checked theorem)"


def word_bytes(bits: int) -> int:
    """Return the bytes of keystream per coordinate: the least power of two that holds its bits."""
    return 1 << max(0, -(-bits // 8) - 1).bit_length()


def expansion_loss(dimension: int, bits: int) -> gmpy2.mpfr:
    """Return a bound on the advantage against a seed beyond assumptions, rounded up.

    The blocks of each chunk are distinct, by a permutation, where those of a random function are
    not with probability at most N (N - 1) / 2^129 for N blocks (the PRP/PRF switching lemma).
    """
    whole, rest = divmod(dimension * word_bytes(bits), CHUNK_BYTES)
    pairs = sum(
        times * blocks * (blocks - 1) // 2
        for times, blocks in ((whole, CHUNK_BYTES // _BLOCK_BYTES), (1, -(-rest // _BLOCK_BYTES)))
    )
    with rounding(UP):
        return gmpy2.mpfr(pairs) / gmpy2.exp2(_BLOCK_BITS)


def helpers_level(users: int, dimension: int, bits: int) -> float:
    """Return the level in bits, rounded down, at which inputs with equal sums look alike.

    Up to twice the advantage against the seeds of all users (docs/helpers.md); infinite if nothing
    but assumptions is lost.
    """
    with rounding(UP):
        lost = gmpy2.log2(2 * users * expansion_loss(dimension, bits))
        return max(0.0, float_down(-lost))  # a change of sign is exact


@dataclass(frozen=True)
class HelpersCount(MessageCount):
    """A message to the analyzer, ``clear``, and a seed to each helper, ``shuffled``."""

    def __str__(self) -> str:
        helpers = f"{self.shuffled} helpers" if self.shuffled > 1 else "the helper"
        level = f"sigma = {hundredths(self.sigma)} bits"
        return f"1 vector to the analyzer and a seed to {helpers}; {level}"


@dataclass(frozen=True)
class HelpersLayout(Layout):
    """The messages per user: a vector of whole coordinates, and a seed for each of ``helpers``."""

    helpers: int = field(kw_only=True)

    @classmethod
    def of(cls, users: int, dimension: int, bits: int, helpers: int) -> HelpersLayout:
        """Return the layout of vectors, with its level."""
        level = helpers_level(users, dimension, bits)
        count = HelpersCount(helpers, 1, level, "helpers", THEOREM)
        return cls(count, dimension, dimension, bits, level, helpers=helpers)

    @property
    def chunks(self) -> int:
        """Chunks of a seed's keystream, each with a key of its own."""
        return -(-self.dimension * word_bytes(self.bits) // CHUNK_BYTES)

    @property
    def name(self) -> str:
        """Its name."""
        return "a vector and seeds"

    @property
    def bits_per_user(self) -> int:
        """Bits that each user sends, before any encryption."""
        return self.dimension * self.bits + 8 * SEED_BYTES * self.helpers

    def __str__(self) -> str:
        seeds = f"{self.helpers} seeds" if self.helpers > 1 else "a seed"
        return f"a vector of {self.dimension * self.bits:,} bits and {seeds} of 256 bits per user"
