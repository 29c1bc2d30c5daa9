"""The privacy of noise that fewer users add than planned.

The proposition and its proof are in docs/message-counts.md, "When users are missing". Both of its
probabilities are (1 - alpha)^(2r) times a series of f(a) = c_a c_(a+j) e^(-2sa - sj), j = 0 or p.
As a function of a real, f is log-convex (c is, for r < 1) and so convex: a block of w terms from a
on is at least w f(a + (w-1)/2) and at most f(a) (w+1)/2 + f(a+w) (w-1)/2.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import gmpy2
from gmpy2 import mpfr, mpq

from ikos._validation import InvalidValue, integer, number, quote
from ikos.numeric.rounding import DOWN, PRECISION, UP, exact, float_up, rational, rounding

MIN_RATE = 1e-40
"""The time for the series is proportional to the logarithm of 1 / rate."""


def short_noise_epsilon(rate: Fraction, shape: Fraction, sensitivity: int) -> float:
    """Return the epsilon of the noise if only a fraction of the users add theirs, rounded up.

    It is pure differential privacy. The result is the smallest epsilon within about 0.001.

    Parameters
    ----------
    rate : Fraction
        s: all users together add noise of probabilities proportional to ``exp(-s abs(k))``.
    shape : Fraction
        The fraction of users who add theirs, in (0, 1].
    sensitivity : int
        Bound on the shift of the sum by replacing one user, p.
    """
    rate = number("rate", rate, above=0, low=MIN_RATE)
    shape = number("shape", shape, above=0)
    if shape > 1:
        raise InvalidValue("shape", f"must be at most 1, got {quote(shape)}")
    sensitivity = integer("sensitivity", sensitivity, low=1)
    if shape == 1:
        return float_up(exact(rate * sensitivity, UP))
    none = _series(rate, shape, 0, UP)
    apart = _series(rate, shape, sensitivity, DOWN)
    with rounding(UP):
        return float_up(gmpy2.log(none / apart) + exact(rate * sensitivity, UP))


_FINE = 32
"""Blocks are this much shorter than the scale on which terms change."""


def _series(rate: Fraction, shape: Fraction, shift: int, direction: int) -> mpfr:
    """Return the sum of c_a c_(a + shift) exp(-2 rate a), rounded in a direction."""
    up, scale = direction == UP, max(1, int(1 / rate))
    end = max(_FINE, 12 * scale)  # the rest is below about e^-24 of the first term
    terms, a = [], 0
    while a < end:
        w = max(1, min(a, scale) // _FINE)
        at = [(mpq(a), w)] if w == 1 else [(mpq(2 * a + w - 1, 2), w)]
        if up and w > 1:
            at = [(mpq(a), mpq(w + 1, 2)), (mpq(a + w), mpq(w - 1, 2))]
        for x, weight in at:
            term = _term(x, rate, shape, shift, direction)
            with rounding(direction):
                terms.append(term * weight)
        a += w
    if up:  # the terms fall, so that the rest is below a geometric series
        with rounding(UP):  # expm1 towards zero: ratio is at most 1 - exp(-2 rate)
            ratio = -gmpy2.expm1(-2 * exact(rate, DOWN))
            terms.append(_term(mpq(a), rate, shape, shift, UP) / ratio)
    with rounding(direction):
        return gmpy2.fsum(terms)


def _term(a: mpq, rate: Fraction, shape: Fraction, shift: int, direction: int) -> mpfr:
    other = DOWN if direction == UP else UP
    with rounding(other):
        decay = 2 * exact(rate, other) * mpfr(a)
    first = _log_weight(a, shape, direction)
    second = _log_weight(a + shift, shape, direction) if shift else first
    with rounding(direction):
        return gmpy2.exp(first + second - decay)


@lru_cache(maxsize=1 << 12)
def _log_weight(x: mpq, shape: Fraction, direction: int) -> mpfr:
    """Return ln(Gamma(x + r) / (Gamma(r) Gamma(x + 1))), rounded in a direction.

    For an integer x <= 32 from the product; beyond from the value at 32, by two differences of
    ln Gamma at arguments where it rises.
    """
    r = rational(shape)
    product = _weight(min(int(x), _FINE), r)
    if x <= _FINE:
        with rounding(direction):
            return gmpy2.log(mpfr(product))
    other = DOWN if direction == UP else UP
    digits = PRECISION + 2 * int(x).bit_length()
    with rounding(direction, digits):
        known = gmpy2.log(mpfr(product)) + gmpy2.lngamma(mpfr(x + r))
        known += gmpy2.lngamma(mpfr(_FINE + 1))
    with rounding(other, digits):
        less = gmpy2.lngamma(mpfr(_FINE + r)) + gmpy2.lngamma(mpfr(x + 1))
    with rounding(direction, digits):
        return known - less


@lru_cache(maxsize=1 << 10)
def _weight(k: int, r: mpq) -> mpq:
    return _weight(k - 1, r) * (r + k - 1) / k if k else mpq(1)
