"""Discrete Gaussian noise: as private as Gaussian noise of a variance smaller by 1/12.

Proof: :ref:`proof-gaussian`.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import gmpy2

from ikos.numeric.gaussian import shift_by_one
from ikos.numeric.rounding import DOWN, UP, fraction, rounding
from ikos.numeric.search import short_up


@lru_cache(maxsize=256)
def least_variance(epsilon: Fraction, delta: Fraction, l2_squared: int) -> Fraction:
    """Return a private variance parameter of discrete Gaussian noise, rounded up to 24 bits.

    About l2^2 / mu^2 + 1/12 squared steps, where Gaussian noise needs l2^2 / mu^2.
    """
    with rounding(DOWN):
        circle = 2 * gmpy2.const_pi() * shift_by_one(epsilon, delta, l2_squared) ** 2
    with rounding(UP):
        variance = 1 / circle
    return short_up(fraction(variance))
