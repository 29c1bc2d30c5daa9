"""SCM22's probabilities of random answers with the gaps of their proofs closed."""

from __future__ import annotations

import math
from fractions import Fraction

from ikos._validation import number
from ikos.accounting.scm22_published import budget, closed_gamma, sizes


def dimension_free_gamma(
    epsilon: float | Fraction, delta: float | Fraction, n: int, k: int
) -> float:
    """Return `published_single_gamma` with k + 1 in place of d k, which is enough; rounded up.

    For epsilon up to 6, n >= 2 users and k steps of the rounding; proof: :ref:`proof-scm22`.
    `ikos.accounting.response_gamma` is about five times smaller.

    Examples
    --------
    >>> round(dimension_free_gamma(0.95, 1e-6, 50_000, 3), 4)  # exact: 0.0037
    0.018
    """
    eps, small = budget(epsilon, delta)
    users, _, steps, _ = sizes(n, 1, k)
    return closed_gamma(eps, small, users, steps + 1) * (1 + 1e-12)


def repaired_gamma(
    epsilon: float | Fraction, delta: float | Fraction, n: int, d: int, k: int, t: int
) -> float:
    """Return a gamma for t messages about t of d coordinates, by SCM22's proof without its gaps.

    ``224 d (k+1) ln(3/delta) ln(6t/delta) / ((n-1) eps^2)`` or, if that is larger,
    ``108 d (k+1) sqrt(2 t ln(3/delta)) / (t (n-1) eps)``, for epsilon at most 1 and (n - 1) t at
    least 8 d ln(3t/delta); it may exceed 1. Proof: :ref:`proof-scm22`.
    `ikos.accounting.scm22.sampled_answers` asks for far less.

    Examples
    --------
    >>> round(repaired_gamma(1, 1e-6, 10**9, 100, 3, 5), 4)
    0.023
    """
    eps, small = budget(epsilon, delta)
    users, coordinates, steps, count = sizes(n, d, k, t)
    number("epsilon", epsilon, high=1)
    least = 8 * coordinates * math.log(3 * count / small)
    if (users - 1) * count < least:
        raise ValueError(
            f"n must be at least {math.ceil(least / count) + 1:,} for {count} of {coordinates} "
            f"coordinates, got {users}"
        )
    each = eps / (2 * math.sqrt(2 * count * math.log(3 / small)))
    others = (users - 1) * count / (2 * coordinates)
    square = 14 * math.log(6 * count / small) / each**2
    return (steps + 1) * max(square, 27 / each) / others * (1 + 1e-12)
