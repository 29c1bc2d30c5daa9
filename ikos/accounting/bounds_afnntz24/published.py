"""The published rules of the single-message protocol."""

from __future__ import annotations

import math
from fractions import Fraction

from ikos._validation import integer, number, round_down
from ikos.accounting.bbgn19 import closed_form_gamma
from ikos.accounting.bounds_afnntz24.arguments import MAX_DIMENSION, MAX_USERS, users_and_dimension

_MANY = 1 << 12
"""Logarithm of so many points that the rule asks for more than a double holds."""


def published_gamma(
    n: int, d: int, epsilon: float | Fraction, delta: float | Fraction, levels: int
) -> float:
    """Return the probability of a random point that AFNNTZ24's Lemma 3.1 asks for; may exceed 1.

    ``max(14 k ln(2/delta)/((n-1) epsilon^2), 27 k/((n-1) epsilon))`` for k = (levels + 1)^d points,
    BBGN19's Theorem 3.1, which needs epsilon at most 1. Infinite where k is far beyond doubles.

    Examples
    --------
    >>> round(published_gamma(10**6, 2, 1, 1e-10, 5), 4)
    0.012
    """
    users, dimension = users_and_dimension(n, d)
    base = integer("levels", levels, low=1) + 1
    if dimension * (base.bit_length() - 1) > _MANY:
        closed_form_gamma(epsilon, delta, users, 2)  # its checks
        return math.inf
    return closed_form_gamma(epsilon, delta, users, base**dimension)


def published_levels(n: int, d: int, epsilon: float | Fraction, delta: float | Fraction) -> int:
    """Return the levels r of AFNNTZ24's Theorem 1.3, (n/c)^(1/(d+2)) with c = 14 ln(2/delta)/eps^2.

    The paper gives c up to a constant; this is the one for which gamma = c k / (n - 1). Rounded
    down, at least 1. Where n/c is below 2^d no levels are private by `published_gamma`: the theorem
    is stated for all n and d, but its protocol needs d < log2(n/c).

    Examples
    --------
    >>> [published_levels(10**6, d, 1, 1e-10) for d in (1, 2, 4, 8)]
    [14, 7, 3, 2]
    """
    users = integer("n", n, low=2, high=MAX_USERS)
    dimension = integer("d", d, low=1, high=MAX_DIMENSION)
    eps = round_down(number("epsilon", epsilon, above=0, high=1))
    small = round_down(number("delta", delta, above=0, below=1))
    c = 14 * math.log(2 / small) / eps**2
    steps: int = math.floor((users / c) ** (1 / (dimension + 2)))
    return max(1, steps)


def published_error(
    n: int, d: int, epsilon: float | Fraction, delta: float | Fraction, levels: int | None = None
) -> float:
    """Return the bound on the mean squared error in the proof of AFNNTZ24's Theorem 1.3.

    ``n d / (1 - gamma)^2 (1/(4 r^2) + gamma/2)``, in units of the squared width of the box,
    with r = `published_levels` by default; infinite where gamma is 1 or more.

    Examples
    --------
    >>> round(published_error(10**6, 2, 1, 1e-10)), published_error(1000, 8, 1, 1e-10)
    (32837, inf)
    """
    r = published_levels(n, d, epsilon, delta) if levels is None else levels
    gamma = published_gamma(n, d, epsilon, delta, r)
    if gamma >= 1:
        return math.inf
    return n * d / (1 - gamma) ** 2 * (1 / (4 * r * r) + gamma / 2)
