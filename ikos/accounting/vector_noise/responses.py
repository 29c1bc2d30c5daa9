"""The delta of independent randomized responses, which discrete Laplace noise comes to."""

from __future__ import annotations

import math
from fractions import Fraction

import gmpy2
import numpy as np
from gmpy2 import mpfr

from ikos.accounting.vector_noise.conversion import best_order, converted
from ikos.accounting.vector_noise.sensitivity import MAX_COORDINATES, Shift
from ikos.counts.rounding import DOWN, UP, exact, float_down, float_up, rounding

_SLACK = 1e-8
"""What a sum of doubles is enlarged by, as a part of it.

A product of at most 2^21 factors, each within 2^-50 of the true one, is within 2e-9 of it.
"""


def _log_cosh(x: float) -> float:
    x = abs(x)
    return x * x / 2 if x < 1e-5 else x + math.log1p(math.exp(-2 * x)) - math.log(2)


def renyi_delta(epsilon: Fraction, rate: Fraction, shift: Shift) -> float:
    """Return the delta of s coordinates with u = r^2 l2^2 / s each."""
    s = shift.support
    each = rate * rate * shift.l2_squared / s
    if each > 1 << 900:
        return 1.0  # far beyond doubles, and any use
    root = math.sqrt(each)

    def divergence(order: float) -> float:
        return s * (_log_cosh((order - 0.5) * root) - _log_cosh(root / 2))

    order = Fraction(best_order(divergence, float(epsilon)))
    with rounding(DOWN):
        low = gmpy2.log(gmpy2.cosh(gmpy2.sqrt(exact(each, DOWN)) / 2))
    with rounding(UP):
        high = gmpy2.sqrt(exact(each, UP)) * exact(order - Fraction(1, 2), UP)
    divergence_up = _scaled_difference(s, _log_cosh_up(high), low)
    return converted(order, divergence_up, epsilon)


def _log_cosh_up(x: mpfr) -> mpfr:
    """Return ln cosh x for x >= 0, rounded up; written so that cosh cannot overflow."""
    with rounding(DOWN):
        ln2, twice = gmpy2.const_log2(), 2 * x
    with rounding(UP):
        return (x - ln2) + gmpy2.log1p(gmpy2.exp(-twice))


def _scaled_difference(count: int, high: mpfr, low: mpfr) -> mpfr:
    with rounding(UP):
        return count * (high - low)


def composition_delta(epsilon: Fraction, each: Fraction, count: int) -> float:
    """Return the delta of so many independent responses with e = ``each``, rounded up.

    i of them say what is likelier under x, Bin(count, 1 / (1 + e^-e)); the loss is (2 i - count) e.
    """
    if count * each <= epsilon:
        return 0.0
    if count > MAX_COORDINATES:
        return 1.0
    e, eps = float_up(exact(each, UP)), float(epsilon)  # e and the masses are rounded up
    if e > 700:
        return 1.0
    first = math.floor((count + epsilon / each) / 2)  # from here on losses may exceed epsilon
    mode = min(count, math.floor((count + 1) / (1 + math.exp(-e))))
    start = max(first, mode)
    with rounding(UP):
        log_pmf = _log_binomial(count, start) - (count - start) * exact(each, DOWN)
        log_pmf -= count * _log1p_exp_minus(each)
        anchor = float_up(gmpy2.exp(log_pmf))
    above = np.arange(start, count, dtype=np.float64)
    rising = np.concatenate(([1.0], np.cumprod((count - above) / (above + 1) * math.exp(e))))
    below = np.arange(start, first, -1, dtype=np.float64)
    e_down = float_down(exact(each, DOWN))
    falling = np.cumprod(below / (count - below + 1) * math.exp(-e_down))[::-1]
    masses = np.concatenate((falling, rising))
    i = np.arange(first, count + 1, dtype=np.float64)
    # enlarged by far more than their rounding errors
    excess = (2 * i - count) * e - eps
    excess += 1e-14 * (np.abs(2 * i - count) * e + eps)
    gains = np.where(excess > 0, -np.expm1(-excess), 0.0)
    return min(1.0, anchor * float(np.dot(masses, gains)) * (1 + _SLACK) + 5e-324)


def _log_binomial(n: int, k: int) -> mpfr:
    """Return ln of a binomial coefficient, rounded up."""
    with rounding(DOWN):
        below = gmpy2.lngamma(mpfr(k + 1)) + gmpy2.lngamma(mpfr(n - k + 1))
    with rounding(UP):
        return gmpy2.lngamma(mpfr(n + 1)) - below


def _log1p_exp_minus(value: Fraction) -> mpfr:
    """Return ln(1 + e^-value), rounded down."""
    with rounding(DOWN):
        return gmpy2.log1p(gmpy2.exp(-exact(value, UP)))
