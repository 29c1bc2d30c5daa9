"""The published analyses, each with the formula of its paper; logarithms are to base 2."""

from __future__ import annotations

import gmpy2

from ikos.counts.types import Analysis, Scheme
from ikos.numeric.rounding import DOWN, UP, exact, float_down, log2, log2_e, rounding

MAX_TESTED_BITS = 1 << 13
"""Largest size of a modulus that is tested for primality: a longer one takes many seconds."""


class Balle2020(Analysis):
    """BBGN20, Theorem 6.1 and Corollary 6.1, for n >= 19, m >= 3 and sigma >= 1.

    For parallel shufflers and one clear share, and so for a single shuffler, whose output can be
    computed from theirs; m + 1 messages that are all shuffled are at least as secure.
    """

    name = "balle2020"
    theorem = "BBGN20, Corollary 6.1"
    min_sigma = 1

    def refusal(self, scheme: Scheme, m: int | None = None) -> str | None:
        n, trust = scheme.trust.min_honest, scheme.trust
        if n < 19:
            return f"needs n >= 19, got n = {n}"
        least = 3 if trust.clear_share else 4
        if m is not None and m < least:
            share = "with" if trust.clear_share else "without"
            return f"needs m >= {least} {share} a clear share, got m = {m}"
        return None

    def level(self, scheme: Scheme, m: int) -> float:
        n = scheme.trust.min_honest  # more users hide better
        hidden = m if scheme.trust.clear_share else m - 1
        with rounding(DOWN):
            sigma = ((hidden - 1) * (log2(n, DOWN) - log2_e(UP)) - log2(scheme.q, UP)) / 2
        return float_down(sigma) if sigma >= 1 else 0.0


class _SingleShuffler(Analysis):
    """An analysis of a single shuffler without a clear share."""

    least_users: int
    condition: str
    least_messages: int

    def refusal(self, scheme: Scheme, m: int | None = None) -> str | None:
        n, trust = scheme.trust.min_honest, scheme.trust
        if not trust.single or trust.clear_share:
            return "needs a single shuffler and no clear share"
        if n < self.least_users:
            return f"needs {self.condition}, got n = {n}"
        if m is not None and m < self.least_messages:
            return f"needs m >= {self.least_messages}, got m = {m}"
        return None


class Ghazi2020(_SingleShuffler):
    """GMPV20 (Ghazi, Manurangsi, Pagh, Velingker, EUROCRYPT 2020), Theorem 3, for n > 2.

    The constants are those that BBGN20, Section 1.2, reads from that theorem. The proof is for
    prime q; BBGN20 quotes numbers for q = 2^64, so they are given for every q, for comparison.
    """

    name = "ghazi2020"
    theorem = (
        "GMPV20, Theorem 3 (proved for prime q), with the constants stated in BBGN20, Section 1.2"
    )
    least_users, condition, least_messages = 3, "n > 2", 4

    def level(self, scheme: Scheme, m: int) -> float:
        n = scheme.trust.min_honest  # more users hide better
        with rounding(DOWN):
            sigma = (m - 4) * (log2(n, DOWN) - 1) / 100 - log2(scheme.q, UP)
        return max(0.0, float_down(sigma))


class Ishai2006(_SingleShuffler):
    """The analysis of IKOS06, with the constants of BBGN20, Appendix E, for n >= 2.

    The log(n - 1) that Appendix E.1 adds to the root of the equation without it stands where the
    proof puts it: the two-user bound at level sigma + log(n - 1), for each of n - 1 steps.
    """

    name = "ishai2006"
    theorem = "IKOS06; BBGN20, Lemma 5.1 with the constants of Appendix E.1"
    least_users, condition, least_messages = 2, "n >= 2", 1

    def level(self, scheme: Scheme, m: int) -> float:
        steps = scheme.n - 1  # the proof takes one step for every further user
        with rounding(UP):
            digits = gmpy2.log2(gmpy2.const_pi() * (exact(2 * m + 1, UP) / 2)) / 4
            spent = log2(steps, UP) + digits
        with rounding(DOWN):
            sigma = m - 1 - exact(5 * (scheme.q - 1).bit_length(), DOWN) / 2 - spent
        return max(0.0, float_down(sigma))


def covered(analysis: str, least: int) -> int:
    """Return the smallest order from ``least`` on of a group that an analysis is proved for."""
    return int(gmpy2.next_prime(least - 1)) if analysis == "ghazi2020" else least


def unproved(analysis: str | None, q: int, dimension: int = 1) -> str | None:
    """Return why an analysis proves nothing for the group Z_q^dimension, or None."""
    if analysis != "ghazi2020":
        return None
    if dimension > 1:
        return "not proved for vectors of several coordinates as one group"
    if q % 2 and q.bit_length() > MAX_TESTED_BITS:
        return "proved for a prime modulus only, and one of this size is not tested"
    return None if gmpy2.is_prime(q) else "not proved for a composite modulus"
