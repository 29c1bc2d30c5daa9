"""The analysis of GMPV20 (Ghazi, Manurangsi, Pagh, Velingker, EUROCRYPT 2020), Theorem 3.

A single shuffler and no clear share, n > 2: with logarithms to base 2,

    m = ceil(100 (sigma + log q) / (log n - 1) + 4)

messages give sigma bits. The constants are those that BBGN20, Section 1.2, reads from that
theorem; they are taken as stated there and not derived here. By BBGN20 the proof is for finite
fields, so for prime q; BBGN20 quotes the numbers for q = 2^64 all the same, and so they are given
for every q, for comparison.
"""

from __future__ import annotations

import math

import gmpy2

from ikos.counts.rounding import DOWN, UP, float_down, log2, rounding
from ikos.counts.types import Users

THEOREM = "GMPV20, Theorem 3 (proved for prime q), with the constants stated in BBGN20, Section 1.2"


MAX_TESTED_BITS = 1 << 13
"""Whether longer moduli are prime is not tested: it would take many seconds."""


def covered(analysis: str, least: int) -> int:
    """Return the smallest order from ``least`` on of a group that an analysis is proved for.

    Examples
    --------
    >>> covered("ghazi2020", 2**16), covered("exact", 2**16)
    (65537, 65536)
    """
    return int(gmpy2.next_prime(least - 1)) if analysis == "ghazi2020" else least


def unproved(analysis: str | None, q: int, dimension: int = 1) -> str | None:
    """Return why nothing is proved by an analysis for the group Z_q^dimension, or None."""
    if analysis != "ghazi2020":
        return None
    if dimension > 1:
        return "not proved for vectors of several coordinates as one group"
    if q % 2 and q.bit_length() > MAX_TESTED_BITS:
        return "proved for a prime modulus only, and one of so many bits is not tested"
    return None if gmpy2.is_prime(q) else "not proved for a composite modulus"


def refusal(n: int, m: int | None, *, shuffler: str, clear_share: bool) -> str | None:
    """Return why this analysis does not cover a setting, or None where it does."""
    if shuffler != "single" or clear_share:
        return "ghazi2020 needs a single shuffler and no clear share"
    if n <= 2:
        return f"ghazi2020 needs n > 2, got n = {n}"
    if m is not None and m < 4:
        return f"ghazi2020 needs m >= 4, got m = {m}"
    return None


def level(users: Users, q: int, m: int, *, shuffler: str, clear_share: bool) -> float:
    """Return the stated sigma of m shuffled messages, rounded down; 0.0 where it is none."""
    assert shuffler == "single"
    assert not clear_share
    n = min(users)  # more users hide better
    with rounding(DOWN):
        sigma = (m - 4) * (log2(n, DOWN) - 1) / 100 - log2(q, UP)
    return max(0.0, float_down(sigma))


def guess(n: int, q: int, sigma: float, *, shuffler: str, clear_share: bool) -> int:
    """Return a count near the smallest that proves sigma."""
    assert shuffler == "single"
    assert not clear_share
    return math.ceil(100 * (sigma + math.log2(q)) / (math.log2(n) - 1) + 4)
