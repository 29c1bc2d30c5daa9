"""The original analysis of IKOS06, with the constants of BBGN20, Appendix E.

A single shuffler and no clear share: with m messages the view of two inputs with the same sum is
within total variation 2^-sigma for every sigma with

    m >= 1 + sigma + log(n - 1) + (5/2) ceil(log q) + (1/4) log(pi (m + 1/2)),

logarithms to base 2, for n >= 2. Appendix E.1 adds log(n - 1) to the root of the equation
without it, which can fall short of sigma by a hair; here it stands inside, where the proof puts
it (the two-user bound at level sigma + log(n - 1), for each of n - 1 steps).
"""

from __future__ import annotations

import math

import gmpy2

from ikos.counts.rounding import DOWN, UP, exact, float_down, log2, rounding
from ikos.counts.types import Users

THEOREM = "IKOS06; BBGN20, Lemma 5.1 with the constants of Appendix E.1"


def refusal(n: int, m: int | None, *, shuffler: str, clear_share: bool) -> str | None:
    """Return why this analysis does not cover a setting, or None where it does."""
    if shuffler != "single" or clear_share:
        return "ishai2006 needs a single shuffler and no clear share"
    if n < 2:
        return f"ishai2006 needs n >= 2, got n = {n}"
    if m is not None and m < 1:
        return f"ishai2006 needs m >= 1, got m = {m}"
    return None


def level(users: Users, q: int, m: int, *, shuffler: str, clear_share: bool) -> float:
    """Return the proved sigma of m shuffled messages, rounded down; 0.0 where it is none."""
    assert shuffler == "single"
    assert not clear_share
    n = max(users)  # the proof takes a step for every user
    with rounding(UP):
        spent = log2(n - 1, UP) + gmpy2.log2(gmpy2.const_pi() * (exact(2 * m + 1, UP) / 2)) / 4
    with rounding(DOWN):
        sigma = m - 1 - exact(5 * (q - 1).bit_length(), DOWN) / 2 - spent
    return max(0.0, float_down(sigma))


def guess(n: int, q: int, sigma: float, *, shuffler: str, clear_share: bool) -> int:
    """Return a count near the smallest that proves sigma."""
    assert shuffler == "single"
    assert not clear_share
    base = 1 + sigma + math.log2(n - 1) + 2.5 * (q - 1).bit_length()
    return math.ceil(base + math.log2(math.pi * (base + 0.5)) / 4)
