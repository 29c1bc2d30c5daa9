"""Closed bounds for shuffled randomized response (BBGN19): Theorem 3.1, Hoeffding and Bennett.

All bound E[(L_1 + ... + L_M)_+] / (gamma n) of `ikos.accounting.blanket`: :ref:`proof-bbgn19`.
"""

from __future__ import annotations

from fractions import Fraction

import gmpy2
from gmpy2 import mpfr

from ikos._validation import integer, number
from ikos.counts.rounding import float_up, rational

_BITS = 300
_ABOVE = 1 + Fraction(1, 1 << 200)  # exceeds the relative errors of a few operations of 300 bits


def _rounded_up(value: mpfr) -> float:
    """Return a float that is at least a positive value known to 200 bits."""
    return float_up(value * mpfr(rational(_ABOVE)))


def _checked(
    epsilon: float | Fraction, n: int, k: int | Fraction, gamma: Fraction
) -> tuple[mpfr, int, mpfr, mpfr]:
    return (
        mpfr(rational(number("epsilon", epsilon, above=0, high=100))),
        integer("n", n, low=1),
        mpfr(rational(number("k", k, low=2))),
        mpfr(rational(number("gamma", gamma, above=0, high=1))),
    )


def hoeffding_bound(epsilon: float | Fraction, n: int, k: int | Fraction, gamma: Fraction) -> float:
    """Return delta by Hoeffding's inequality, rounded up, for arguments as of `ResponseBlanket`."""
    with gmpy2.context(precision=_BITS):
        eps, users, values, g = _checked(epsilon, n, k, gamma)
        if g == 1:
            return 0.0
        a = gmpy2.expm1(eps)
        b = (1 - g) * values * (2 + a)
        spread = 1 + g * gmpy2.expm1(-2 * a * a / (b * b))
        return min(1.0, _rounded_up(b * b / (4 * a) / (g * users) * spread**users))


def bennett_bound(epsilon: float | Fraction, n: int, k: int | Fraction, gamma: Fraction) -> float:
    """Return delta by Bennett's inequality, or by Hoeffding's if that is better, rounded up."""
    with gmpy2.context(precision=_BITS):
        eps, users, values, g = _checked(epsilon, n, k, gamma)
        if g == 1:
            return 0.0
        a = gmpy2.expm1(eps)
        truth = (1 - g) * values
        # L = truth (1[W = x] - e^eps 1[W = x']) - gamma a, whose first part has mean -a (1 - gamma)
        odds = 1 + a
        variance = truth**2 * (1 + odds * odds) / values - ((1 - g) * a) ** 2
        excess = truth + (1 - g) * a
        x = excess * a / variance
        rate = variance / excess**2 * ((1 + x) * gmpy2.log1p(x) - x)
        spread = 1 + g * gmpy2.expm1(-rate)
        found = _rounded_up(excess / gmpy2.log1p(x) / (g * users) * spread**users)
    return min(found, hoeffding_bound(epsilon, n, k, gamma))


def closed_form_bound(
    epsilon: float | Fraction, n: int, k: int | Fraction, gamma: Fraction
) -> float:
    """Return the delta for which BBGN19's Theorem 3.1 requires gamma, rounded up; 1 for none.

    The theorem is for gamma = max(14 k ln(2/delta) / ((n-1) eps^2), 27 k / ((n-1) eps)).
    """
    number("epsilon", epsilon, above=0, high=1)
    integer("k", k, low=2)
    with gmpy2.context(precision=_BITS):
        eps, users, values, g = _checked(epsilon, n, k, gamma)
        others = integer("n", users, low=2) - 1
        if g == 1:
            return 0.0
        if g * others * eps < 27 * values:
            return 1.0
        return min(1.0, _rounded_up(2 * gmpy2.exp(-g * others * eps * eps / (14 * values))))
