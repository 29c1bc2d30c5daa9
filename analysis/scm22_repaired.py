"""SCM22's probabilities of random answers with the gaps closed in their proofs, and its errors.

`repaired_gamma` is Lemma 4.5 (Appendix A) and Theorem 4.1 with their gaps closed.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ikos._validation import integer, number
from ikos.accounting.scm22 import budget, closed_gamma, published_gamma, response_shares


def corollary_4_3_share(epsilon: float | Fraction, delta: float | Fraction, times: int) -> float:
    """Return the epsilon per mechanism of SCM22's Corollary 4.3, as printed.

    ``times`` mechanisms, (eps', delta')-private with eps' = eps / (2 sqrt(2 r ln(1/delta))), are
    together (eps, r delta' + delta)-private. For epsilon from 1 to 6 Section 4.3 has 12 for 2. It
    follows from Theorem 4.2 for delta up to 0.7, where `ikos.accounting.composition.advanced_share`
    is larger, and is false for delta near 1: see the errata of the documentation.

    Examples
    --------
    >>> round(corollary_4_3_share(0.95, 1e-6, 10), 4)
    0.0286
    """
    eps, small = budget(epsilon, delta)
    count = integer("times", times, low=1)
    return eps / ((2 if eps <= 1 else 12) * math.sqrt(2 * count * math.log(1 / small)))


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
    users, steps = integer("n", n, low=2), integer("k", k, low=1)
    return closed_gamma(*budget(epsilon, delta), users, steps + 1) * (1 + 1e-12)


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
    users, coordinates = integer("n", n, low=2), integer("d", d, low=1)
    steps, count = integer("k", k, low=1), integer("t", t, low=1, high=coordinates)
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


def theorem_4_6_precision(
    epsilon: float | Fraction, delta: float | Fraction, n: int, d: int, t: int = 1
) -> float:
    """Return the k of SCM22's Theorem 4.6, a real number, also for t = 1.

    The cube root of ``(n-1) eps^2 / (112 d ln(1/delta) ln(2t/delta))``, with 4032 for 112 if
    epsilon is above 1. For t = 1 the paper goes on to `ikos.accounting.scm22.published_precision`.

    Examples
    --------
    >>> round(theorem_4_6_precision(0.95, 0.5, 50_000, 100), 4)  # Section 4.5: 2.0643
    1.6125
    """
    return float((2 * published_gamma(epsilon, delta, n, d, 1, t)) ** (-1 / 3))


def theorem_4_6_error(
    epsilon: float | Fraction,
    delta: float | Fraction,
    n: int,
    d: int,
    gamma: float,
    t: int = 1,
) -> float:
    """Return SCM22's Theorem 4.6, the bound on its normalized mean squared error at its k.

    ``2 t d^(8/3) (14 ln(1/delta) ln(2t/delta))^(2/3) / ((1 - gamma)^2 n^(5/3) eps^(4/3))``, with 8
    for 2 and 63 for 14 if epsilon is above 1. What it measures: `published_error`.

    Examples
    --------
    >>> round(theorem_4_6_error(0.95, 0.5, 50_000, 100, 0.3, 2), 6)
    0.205691
    """
    eps, small = budget(epsilon, delta)
    _, share = response_shares(gamma)
    first, inner = (2, 14) if eps <= 1 else (8, 63)
    logs = math.log(1 / small) * math.log(2 * t / small)
    scale = d ** (8 / 3) / (share**2 * n ** (5 / 3))
    return float(scale * first * t * (inner * logs) ** (2 / 3) / eps ** (4 / 3))


def corollary_4_7_deviation(
    epsilon: float | Fraction,
    delta: float | Fraction,
    n: int,
    d: int,
    gamma: float,
    t: int = 1,
) -> float:
    """Return SCM22's Corollary 4.7, the root of Theorem 4.6's bound (sigma-hat).

    Examples
    --------
    >>> round(corollary_4_7_deviation(0.95, 0.5, 50_000, 100, 0.3, 2), 4)
    0.4535
    """
    return math.sqrt(theorem_4_6_error(epsilon, delta, n, d, gamma, t))


def single_deviation(
    epsilon: float | Fraction, delta: float | Fraction, n: int, d: int, gamma: float
) -> float:
    """Return the root of SCM22's error for t = 1 (sigma', Section 4.5).

    Examples
    --------
    >>> round(single_deviation(0.95, 0.5, 50_000, 100, 0.3), 4)
    0.2188
    """
    return math.sqrt(published_error(epsilon, delta, n, d, gamma))


def published_error(
    epsilon: float | Fraction,
    delta: float | Fraction,
    n: int,
    d: int,
    gamma: float,
    t: int = 1,
) -> float:
    """Return SCM22's bound on its normalized error at its k: Theorem 4.6, for t = 1 Section 4.5.

    Of the sums of what was drawn, over (n / d)^2: without the sampling, and with the mean number
    of reports of a coordinate for t = 1 whatever t is. ``gamma`` is the probability at that k,
    below 1; it enters as (1 - gamma)^-2.
    """
    if t > 1:
        return theorem_4_6_error(epsilon, delta, n, d, gamma, t)
    eps, small = budget(epsilon, delta)
    _, share = response_shares(gamma)
    scale = d ** (8 / 3) / (share**2 * n ** (5 / 3))
    log = math.log(2 / small)
    if eps <= 1:
        terms = (98 ** (1 / 3) * log ** (2 / 3) / eps ** (4 / 3), 18 / (4 * eps) ** (2 / 3))
    else:
        terms = (
            2 * (20 * log) ** (2 / 3) / eps ** (4 / 3),
            2 * 9 ** (2 / 3) / (11 * eps) ** (2 / 3),
        )
    return float(scale * max(terms))
