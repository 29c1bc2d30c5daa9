"""Gaussian differential privacy: as hard to distinguish as N(mu, 1) and N(0, 1), or harder.

That is, for every epsilon, with the normal distribution function Phi,

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

Noise N(0, s^2) on a vector has mu = (l2 sensitivity) / s, and the formula is exact: BW18, Balle,
Wang, "Improving the Gaussian Mechanism for Differential Privacy", ICML 2018, Theorem 8. The
composition of mechanisms with mu_1, mu_2, ... has mu = sqrt(mu_1^2 + mu_2^2 + ...), even if they
are adaptively chosen: DRS22, Dong, Roth, Su, "Gaussian Differential Privacy", 2022, Corollary 3.3.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import gmpy2
import scipy
from gmpy2 import mpfr

from ikos._validation import number
from ikos.numeric.rounding import DOWN, PRECISION, UP, exact, float_up, rational, rounding
from ikos.numeric.search import bisect
from ikos.numeric.underflow import may_underflow

Real = float | Fraction

LEAST_DELTA = 1e-310
"""The smallest delta of which `gaussian_mu` is computed."""


def gaussian_delta(epsilon: Real, mu: Real) -> float:
    """Return the delta of mu-Gaussian privacy, rounded up, by less than 1e-70 before the last bit.

    The delta is the same in both orders.

    Parameters
    ----------
    epsilon : float
        At least 0.
    mu : float
        Positive; for Gaussian noise the l2 sensitivity in standard deviations.

    Examples
    --------
    >>> f"{gaussian_delta(1, 2 / 10.2006176):.4g}"
    '1e-08'
    """
    eps, distance = number("epsilon", epsilon, low=0), number("mu", mu, above=0)
    # the difference may be mu times its terms, of which no double is left below 2^-1100
    small = distance.denominator.bit_length() - distance.numerator.bit_length()
    digits = PRECISION + min(1100, max(0, small))
    up, down = rounding(UP, digits), rounding(DOWN, digits)
    with down:
        root = gmpy2.sqrt(mpfr(8))
    with up:  # delta grows with it
        t = mpfr(rational(distance)) / root
    with down:
        near = mpfr(rational(eps)) / (4 * t) - t
    with up:
        far = mpfr(rational(eps)) / (4 * t) + t
    with down:
        less = gmpy2.exp(mpfr(rational(eps))) * gmpy2.erfc(far)
    with up:
        return float_up((gmpy2.erfc(near) - less) / 2)


@lru_cache(maxsize=256)
def gaussian_mu(epsilon: Real, delta: Real) -> float:
    """Return the largest mu that is (epsilon, delta)-private, rounded down by a relative 1e-12.

    Parameters
    ----------
    epsilon, delta : float
        Epsilon at least 0, delta from 1e-310 to 1.

    Examples
    --------
    >>> round(2 / gaussian_mu(1, 1e-8), 6)  # deviation for vectors in the unit ball
    10.200618
    """
    small = number("delta", delta, low=LEAST_DELTA, below=1)

    def private(mu: float) -> bool:
        return Fraction(gaussian_delta(epsilon, mu)) <= small

    low = high = 1.0
    while not private(low):
        low, high = low / 2, low
    while private(high):
        high *= 2
    return bisect(private, low, high, close=1e-12)


@may_underflow()
def gaussian_log_delta(epsilon: float, mu: float) -> float:
    """Return ln of `gaussian_delta`, by doubles."""
    first = float(scipy.special.log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(scipy.special.log_ndtr(-mu / 2 - epsilon / mu))
    return first + math.log(-math.expm1(min(second - first, -1e-300)))


def gaussian_gamma(k: int, noise: float, n: int) -> float:
    """Return gamma with 2 k (1 - gamma)^2 / (gamma n) = noise: about mu^2 of the digit."""
    c = noise * n / (2 * k)
    return 2 / ((2 + c) + math.sqrt(c * (4 + c)))


def shift_by_one(epsilon: Fraction, delta: Fraction, l2_squared: int) -> mpfr:
    """Return a total variation of a shift by 1 that suffices for the privacy of shifts of norm l2.

    It is that of N(mu / l2, 1) and N(0, 1), with the largest private mu: erf(mu / (sqrt(8) l2)).
    """
    mu = Fraction(gaussian_mu(epsilon, delta))
    with rounding(DOWN):
        return gmpy2.erf(gmpy2.sqrt(exact(mu * mu / (8 * l2_squared), DOWN)))
