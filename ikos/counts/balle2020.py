"""The analysis of BBGN20, Theorem 6.1 and Corollary 6.1.

Parallel shufflers and one clear share: m shuffled messages give, with logarithms to base 2,

    sigma = ((m - 1) (log n - log e) - log q) / 2      for n >= 19, m >= 3 and sigma >= 1.

A bound for parallel shufflers holds for a single one too (its output can be computed from
theirs), and m + 1 messages that are all shuffled are at least as secure as m and one clear.
"""

from __future__ import annotations

import math

from ikos.counts.rounding import DOWN, UP, float_down, log2, log2_e, rounding
from ikos.counts.types import Users

THEOREM = "BBGN20, Corollary 6.1"


def refusal(n: int, m: int | None, *, shuffler: str, clear_share: bool) -> str | None:
    """Return why this analysis does not cover a setting, or None where it does."""
    del shuffler  # both
    least = 3 if clear_share else 4
    if n < 19:
        return f"balle2020 needs n >= 19, got n = {n}"
    if m is not None and m < least:
        setting = "with" if clear_share else "without"
        return f"balle2020 needs m >= {least} {setting} a clear share, got m = {m}"
    return None


def level(users: Users, q: int, m: int, *, shuffler: str, clear_share: bool) -> float:
    """Return the proved sigma of m shuffled messages, rounded down; 0.0 below its range."""
    del shuffler
    n = min(users)  # more users hide better
    hidden = m if clear_share else m - 1
    with rounding(DOWN):
        sigma = ((hidden - 1) * (log2(n, DOWN) - log2_e(UP)) - log2(q, UP)) / 2
    return float_down(sigma) if sigma >= 1 else 0.0


def guess(n: int, q: int, sigma: float, *, shuffler: str, clear_share: bool) -> int:
    """Return a count near the smallest that proves sigma."""
    del shuffler
    hidden = math.ceil((2 * sigma + math.log2(q)) / (math.log2(n) - math.log2(math.e)) + 1)
    return max(3, hidden) + (0 if clear_share else 1)
