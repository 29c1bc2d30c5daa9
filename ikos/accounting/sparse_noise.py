"""The probability with which each user must add noise if few users add all of it.

SCRCS11 is Shi, Chan, Rieffel, Chow, Song, *Privacy-preserving aggregation of time-series data*,
NDSS 2011. Each of h honest users adds, with probability beta and independently of its value, a
whole discrete Laplace variable of rate epsilon / p; the sum of their values is in {0..h p} and a
user can move it by up to p. SCRCS11 uses (epsilon, (1 - beta)^h); the divergence itself, M(0) -
e^epsilon M(p) for the mixture M of the noise, is far smaller (:ref:`proof-sparse-noise`).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ikos.numeric.rounding import UP, exact, float_up, rounding
from ikos.numeric.search import bisect_integers
from ikos.primitives.randomized_response import GRID

_MOST_POINTS = 1 << 22
_ROUNDING = 1e-11
_CUT = 45.0


def silence(users: int, chance: Fraction) -> float:
    """Return (1 - beta)^h, the probability that no user adds noise, rounded up."""
    with rounding(UP):
        # one correctly rounded power of 1 - beta, which has at most 54 bits
        return float_up(exact(1 - chance, UP) ** users)


def published_chance(users: int, delta: Fraction | float) -> Fraction:
    """Return the smallest beta, a multiple of 2^-53, at which `silence` is at most delta > 0."""

    def enough(steps: int) -> bool:
        return Fraction(silence(users, Fraction(steps, GRID))) <= delta

    return Fraction(bisect_integers(enough, GRID, 0), GRID)


def divergence(users: int, chance: Fraction, rate: Fraction, precision: int) -> float:
    """Return the delta of the sum with sparse noise, in both orders, at rate * precision.

    ``chance``, a multiple of 2^-53, is the probability that one of h ``users`` adds noise. An upper
    bound: equal to the true divergence up to 1e-11 e^epsilon M(0), 0.0 if the sum has pure
    differential privacy, and `silence` if it would take more than 2^22 points or is smaller.
    """
    # M at 0 and p by inversion of its characteristic function: the proof has the aliasing
    quiet = silence(users, chance)
    beta, s = float(chance), float(rate)
    # E exp(theta noise) at theta = rate / 2, at most
    half = math.exp(-s / 2)
    grown = half / (1 + half + half * half)
    exponent = users * math.log1p(beta * grown) * (1 + _ROUNDING)
    last = math.ceil((precision + 2 * (exponent + _CUT) / s) / 2)
    if last > _MOST_POINTS / 2:
        return quiet
    points = 2 * last + 1
    aliased = 2 * math.exp(exponent - (points - precision) * s / 2)
    index = np.arange(1, last + 1)
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        ratio = (np.sin(np.pi / points * index) / math.sinh(s / 2)) ** 2
        transform = np.exp(users * np.log1p(-beta * ratio / (1 + ratio)))
    turn = np.cos(2 * np.pi / points * (index * precision % points))
    top = (1 + 2 * float(transform.sum())) / points
    shifted = (1 + 2 * float((transform * turn).sum())) / points
    least = shifted - _ROUNDING * top - aliased
    bound = top * (1 + _ROUNDING) - math.exp(s * precision) * (1 - _ROUNDING) * least
    return min(quiet, max(0.0, bound))


def least_chance(users: int, delta: Fraction | float, rate: Fraction, precision: int) -> Fraction:
    """Return nearly the least probability at which `divergence` is at most delta > 0."""

    def enough(steps: int) -> bool:
        return divergence(users, Fraction(steps, GRID), rate, precision) <= delta

    most = int(published_chance(users, delta) * GRID)
    return Fraction(bisect_integers(enough, most, 0, close=2.0**-8), GRID)
