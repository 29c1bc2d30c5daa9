"""Discrete Gaussian noise: what a variance guarantees, and the smallest variance."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from ikos._validation import number, quote
from ikos.accounting.vector_noise.conversion import best_order, converted
from ikos.accounting.vector_noise.few_bits import rounded_up, unit_of
from ikos.accounting.vector_noise.sensitivity import MAX_EPSILON, ROOTS_UP, Real
from ikos.counts.rounding import UP, exact


def gaussian_delta(epsilon: Real, variance: Real, l2: Real) -> float:
    """Return the delta of discrete Gaussian noise in every coordinate of a sum of integer vectors.

    Parameters
    ----------
    epsilon : float
        At least 0.
    variance : float
        Variance parameter of the noise, in squared steps; positive.
    l2 : float
        How far one user's replacement moves the sum at most, in Euclidean norm and steps.

    Returns
    -------
    float
        Upper bound, rounded up. The dimension does not matter.

    Examples
    --------
    >>> f"{gaussian_delta(1, 30**2, 5):.3g}"
    '2.52e-10'
    """
    budget = number("epsilon", epsilon, low=0, high=MAX_EPSILON)
    spread = number("variance", variance, above=0)
    distance = number("l2", l2, above=0)
    return _gaussian_delta(budget, spread, (distance * ROOTS_UP) ** 2)


def _gaussian_delta(epsilon: Fraction, variance: Fraction, l2_squared: Fraction) -> float:
    rho = l2_squared / (2 * variance)
    size = float(rho) if rho < 1 << 900 else math.inf
    if size > 1e9:
        return 1.0
    order = Fraction(best_order(lambda a: a * (a - 1) * size, float(epsilon)))
    return converted(order, exact(rho * order * (order - 1), UP), epsilon)


def gaussian_variance(epsilon: Real, delta: Real, l2: Real) -> Fraction:
    """Return the smallest variance parameter of discrete Gaussian noise that is proved private.

    Parameters
    ----------
    epsilon : float
        Positive.
    delta : float
        In (0, 1).
    l2 : float
        As for `gaussian_delta`.

    Returns
    -------
    Fraction
        In squared steps, rounded up to 24 bits; an integer from 2^24 on.

    Examples
    --------
    >>> round(float(gaussian_variance(1, 1e-8, 1)) ** 0.5, 3)
    5.391
    """
    budget = number("epsilon", epsilon, above=0, high=MAX_EPSILON)
    allowed = number("delta", delta, above=0, below=1)
    distance = number("l2", l2, above=0)
    return least_variance(budget, allowed, (distance * ROOTS_UP) ** 2)


@lru_cache(maxsize=256)
def least_variance(epsilon: Fraction, delta: Fraction, l2_squared: Fraction) -> Fraction:
    """Return `gaussian_variance` for the square of l2."""

    def enough(variance: Fraction) -> bool:
        return Fraction(_gaussian_delta(epsilon, variance, l2_squared)) <= delta

    high = rounded_up(l2_squared / (epsilon + epsilon**2))
    if high <= 0:
        raise ValueError(f"l2 must be larger, got {quote(l2_squared)} squared")
    while not enough(high):
        high *= 2
    low = high / 2
    while enough(low):
        low, high = low / 2, low
    while high - low > unit_of(high):
        middle = rounded_up((low + high) / 2)
        if middle >= high:
            break
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
