"""The messages of verified sums: a report with a proof for the analyzer, and shares of its opening.

An opening of a commitment is the committed values and a blinding factor, a scalar each. The
theorems are in docs/verified-sums.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import gmpy2

from ikos.counts.types import MessageCount
from ikos.counts.vectors import Layout
from ikos.numeric.rounding import UP, float_down, rounding
from ikos.verified.statements import POINT_BYTES, SCALAR_BYTES

ADDED = "openings shared among parties of which one is honest, docs/verified-sums.md, Theorem 5"
SHUFFLED = "commitments as clear shares, docs/verified-sums.md, Theorem 2"


def level_together(*levels: float) -> float:
    """Return the level of independent views together, in bits, rounded down."""
    with rounding(UP):
        lost = sum(gmpy2.exp2(-gmpy2.mpfr(level)) for level in levels)
        return max(0.0, float_down(-gmpy2.log2(lost)))


class OpeningsCount(MessageCount):
    """A report with a share of the opening, ``clear``, and one for each relay, ``shuffled``."""

    def __str__(self) -> str:
        relays = f"{self.shuffled} relays" if self.shuffled > 1 else "the relay"
        return f"1 report with a proof to the analyzer, and an opening to {relays}"


@dataclass(frozen=True)
class OpeningsLayout(Layout):
    """The messages per user, of ``sent_bits`` in all, before any encryption.

    Those beside the report are openings for relays, of which ``count`` has the number, or shares
    that are ``shuffled``: of blinding factors, and of the coordinates of vectors.
    """

    sent_bits: int = field(kw_only=True)
    shuffled: tuple[Layout, ...] = field(default=(), kw_only=True)

    @classmethod
    def added(cls, relays: int, dimension: int, proof_bytes: int) -> OpeningsLayout:
        """Return the layout of openings that relays add: nothing of values is lost."""
        count = OpeningsCount(relays, 1, float("inf"), "openings", ADDED)
        opening = SCALAR_BYTES * (dimension + 1)
        sent = proof_bytes + (relays + 1) * (POINT_BYTES + opening)
        size = dimension, dimension, 8 * SCALAR_BYTES
        return cls(count, *size, count.sigma, sent_bits=8 * sent)

    @classmethod
    def shared(cls, shuffled: tuple[Layout, ...], proof_bytes: int) -> OpeningsLayout:
        """Return the layout of openings in shares of one level or two, which hide them together."""
        keys, *others = shuffled
        count = replace(keys.count, theorem=f"{SHUFFLED}; {keys.count.theorem}")
        level = level_together(keys.sigma, *(layout.sigma for layout in others))
        sent = 8 * (POINT_BYTES + proof_bytes) + sum(layout.bits_per_user for layout in shuffled)
        dimension = sum(layout.dimension for layout in others) or 1
        size = dimension, dimension, 8 * SCALAR_BYTES
        return cls(count, *size, level, sent_bits=sent, shuffled=shuffled)

    @property
    def name(self) -> str:
        """Its name."""
        return "commitments with proofs"

    @property
    def messages_per_user(self) -> int:
        """Messages that each user sends: the report, and openings or shares of them."""
        if not self.shuffled:
            return self.count.total
        return 1 + sum(layout.messages_per_user for layout in self.shuffled)

    @property
    def bits_per_user(self) -> int:
        """Bits that each user sends, before any encryption."""
        return self.sent_bits

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.messages_per_user:,} messages of {self.bits_per_user:,} bits in "
            "all per user"
        )
