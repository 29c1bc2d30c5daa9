"""How likely each user must add noise, if few users add all of it.

SCRCS11 is Shi, Chan, Rieffel, Chow, Song, *Privacy-preserving aggregation of time-series data*,
NDSS 2011. Of h honest users each adds, with probability beta and independently of its value, a
whole discrete Laplace variable of rate epsilon / p; the sum of their values is in {0..h p} and a
user can move it by up to p. The number K of variables is Bin(h, beta).

Given K >= 1 the noisy sum is epsilon-private: one of the variables is enough, and the others are
post-processing. K does not depend on the values. So by joint convexity of the hockey-stick
divergence the mixture is (epsilon, P[K = 0])-private, which is what SCRCS11 count with.

That is far from tight. The laws given K = k >= 1 are each within e^epsilon of their shift by d <= p
at every point, so that the mixture M can only exceed e^epsilon times its shift where K = 0 has its
one atom: the divergence is exactly the largest of (M(0) - e^epsilon M(d))_+ over d in {1..p}. Laws
given K are symmetric and unimodal (convolutions of log-concave ones), hence d = p is the worst:

    delta = (M(0) - e^epsilon M(p))_+.

The atom drowns in what K >= 2 leaves to spare as soon as it is smaller than some epsilon / p, and
then the noise is purely epsilon-private, at a third or half of the variance.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ikos.counts.rounding import UP, exact, float_up, rounding
from ikos.randomized_response import GRID

__all__ = ["divergence", "least_chance", "published_chance", "silence"]

_MOST_POINTS = 1 << 22
_ROUNDING = 1e-11
_CUT = 45.0


def silence(users: int, chance: Fraction) -> float:
    """Return (1 - beta)^h, the probability that nobody adds noise, rounded up.

    Parameters
    ----------
    users : int
        h, the honest users.
    chance : Fraction
        beta, the probability with which each adds noise.

    Examples
    --------
    >>> silence(2, Fraction(1, 2))
    0.25
    """
    with rounding(UP):
        # one correctly rounded power of 1 - beta, which has at most 54 bits
        return float_up(exact(1 - chance, UP) ** users)


def published_chance(users: int, delta: Fraction | float) -> Fraction:
    """Return the smallest multiple of 2^-53 at which somebody adds noise but for delta.

    Parameters
    ----------
    users : int
        h, the honest users.
    delta : float
        Above 0; (1 - beta)^h is at most that.

    Examples
    --------
    >>> published_chance(2, 0.25)
    Fraction(1, 2)
    >>> round(float(published_chance(10_000, 1e-8)) * 10_000, 2)  # about ln(1 / delta)
    18.4
    """
    low, high = 0, GRID
    while high - low > 1:
        middle = (low + high) // 2
        enough = Fraction(silence(users, Fraction(middle, GRID))) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return Fraction(high, GRID)


def divergence(users: int, chance: Fraction, rate: Fraction, precision: int) -> float:
    """Return the delta of the sum with sparse noise, for epsilon = rate * precision.

    Parameters
    ----------
    users : int
        h, the honest users.
    chance : Fraction
        beta, a multiple of 2^-53.
    rate : Fraction
        Rate of each discrete Laplace variable.
    precision : int
        p, the sensitivity of the sum.

    Returns
    -------
    float
        An upper bound, never above `silence`; 0.0 where the sum is purely private. Equal to the
        true divergence up to 1e-11 e^epsilon as a part of the law's highest point. Of very long
        laws it is `silence`.

    Notes
    -----
    M at 0 and at p by inversion of its characteristic function on N points, which gives M(0) +
    M(N) + M(-N) + ... and so on: too much at 0, which is safe, and too much at p by no more than
    P[abs(noise) >= N - p], which Chernoff's bound takes off again. All terms are positive at 0, so
    that rounding errors are relative to M(0).

    Examples
    --------
    >>> round(divergence(10_000, Fraction(1, 2**13), Fraction(1, 100), 100), 2)  # about one user
    0.29
    >>> divergence(10_000, Fraction(1, 2**10), Fraction(1, 100), 100)  # about ten
    0.0
    """
    quiet = silence(users, chance)
    beta, s = float(chance), float(rate)
    # E exp(theta noise) at theta = rate / 2, at most
    grown = math.exp(-s) * 4 * math.sinh(s / 4) ** 2 / (math.expm1(-s / 2) * math.expm1(-1.5 * s))
    exponent = users * math.log1p(beta * grown) * (1 + _ROUNDING)
    half = math.ceil((precision + 2 * (exponent + _CUT) / s) / 2)
    if half > _MOST_POINTS / 2:
        return quiet
    points = 2 * half + 1
    aliased = 2 * math.exp(exponent - (points - precision) * s / 2)
    index = np.arange(1, half + 1)
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
    """Return a probability of adding noise at which `divergence` is at most delta.

    Nearly the smallest: within 1/256 of one at which it is not, and never above
    `published_chance`.

    Parameters
    ----------
    users, rate, precision
        As for `divergence`.
    delta : float
        Above 0.

    Examples
    --------
    >>> chance = least_chance(10_000, 1e-8, Fraction(1, 100), 100)
    >>> 10_000 * chance < 8 < 18 < 10_000 * published_chance(10_000, 1e-8)
    True
    """
    low, high = 0, int(published_chance(users, delta) * GRID)
    while 256 * (high - low) > high:
        middle = (low + high) // 2
        enough = divergence(users, Fraction(middle, GRID), rate, precision) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return Fraction(high, GRID)
