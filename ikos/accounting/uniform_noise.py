"""Uniform noise of many users: the exact privacy profile, also of many coordinates or releases.

Each of n users adds a uniform integer of {0..w-1}, and all of them together Z. Replacing one user's
value of {0..t} shifts the sum by at most t steps, and the least delta for epsilon is

    delta(epsilon) = max_T P[Z >= T - t] - e^epsilon P[Z >= T],

attained at the least T with P[Z = T - t] > e^epsilon P[Z = T]: the distribution of Z is symmetric
and log-concave, so that tails are the best tests, of the largest shift. It falls in n. The proof is
in docs/verified-sums.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import gmpy2
from gmpy2 import mpfr, mpq

from ikos._validation import integer, number
from ikos.accounting.loss_masses import Masses, connected, units
from ikos.numeric.rounding import DOWN, UP, exact, float_up, rounding
from ikos.numeric.search import smallest
from ikos.numeric.uniform_sum import UniformSum

MAX_USERS = 1 << 53

_PER_DEVIATION = 16
"""Losses of the grid per standard deviation of the loss of one coordinate."""

_REACH = 16  # standard deviations of losses: beyond, they count as infinite
_NEGLIGIBLE = 2.0**-100  # and so do those from an epsilon of such a delta on


@lru_cache(maxsize=256)
def composed_delta(
    users: int, width: int, steps: int, epsilon: float | Fraction, coordinates: int = 1
) -> float:
    """Return the delta of independent uniform noise in all coordinates that change, rounded up.

    Parameters
    ----------
    users : int
        Users who add noise, from 1 to 2^53.
    width : int
        Number w of equally likely values of a user's noise, from 1 to 2^53.
    steps : int
        Largest shift of a sum by replacing one user, at least 1.
    epsilon : float
        At least 0.
    coordinates : int
        Number of sums that replacing one user shifts, in all releases together: of a histogram two
        for each release.

    Returns
    -------
    float
        The same in both orders. For one coordinate it is exact, up to 1e-60 and the last bit (1.0
        if nothing is left of it). For more it is larger by some percent: the privacy losses are
        discretized, and nowhere below the true ones.

    Examples
    --------
    >>> f"{composed_delta(10_000, 16, 90, 1):.4g}"
    '8.945e-09'
    >>> f"{composed_delta(10_000, 2, 6, 1, 2):.3g}"  # a histogram: 6 steps, and a coin per count
    '8.8e-11'
    """
    n = integer("users", users, low=1, high=MAX_USERS)
    w = integer("width", width, low=1, high=MAX_USERS)
    t, eps = integer("steps", steps, low=1), number("epsilon", epsilon, low=0)
    if integer("coordinates", coordinates, low=1) == 1 or t > n * (w - 1):
        return _delta(n, w, t, eps)
    unit, losses = _losses(n, w, t)
    return losses.power(coordinates).divergence(unit, eps)


def _delta(users: int, width: int, steps: int, epsilon: Fraction) -> float:
    """Return the delta of one coordinate."""
    law = UniformSum(users, width)
    if steps > law.top:
        return 1.0
    with rounding(DOWN):  # the delta of a slightly smaller epsilon, exactly of these odds
        odds = mpq(gmpy2.exp(exact(epsilon, DOWN)))

    def chance(value: int) -> mpq | mpfr:
        return law.tail(value) - law.tail(value + 1)

    def beyond(least: int) -> bool:
        return least > law.top or chance(least - steps) > odds * chance(least)

    with rounding(UP, 420):
        # by the saddle point, at which the distribution falls by epsilon over the shift
        half = max(float(epsilon), 1e-6) / steps / 2
        slope = law.width / math.tanh(law.width * half) - 1 / math.tanh(half)
        guess = math.ceil((law.top + steps + users * slope) / 2)
        least = smallest(beyond, min(guess, law.top + 1), most=law.top + 1)
        delta = law.tail(least - steps) - odds * law.tail(least)
        if law.margin:
            # Errors, at most the margin each, change delta by their sum; and if they make the test
            # err, the true T is off, but over the range between, the summands of delta are at most
            # their error at T or T - 1, times the ratio of probabilities there.
            near = chance(least) - 2 * law.margin
            delta += law.margin * (1 + odds) * (1 + 2 / near) if near > 0 else 1
        return min(1.0, float_up(mpfr(delta)))


@lru_cache(maxsize=64)
def _losses(users: int, width: int, steps: int) -> tuple[float, Masses]:
    """Return the interval of a grid, and masses of the privacy losses of one coordinate on it."""
    unit = steps / math.sqrt(UniformSum(users, width).variance) / _PER_DEVIATION
    heights = [1.0]
    while len(heights) <= _REACH * _PER_DEVIATION and heights[-1] > _NEGLIGIBLE:
        delta = _delta(users, width, steps, len(heights) * Fraction(unit))
        heights.append(min(heights[-1], delta))
    last = len(heights) - 1
    finite = [0] * (2 * last + 1)
    for key, one, other in connected(heights, range(1, last + 1), unit):
        finite[last - key], finite[last + key] = units(one), units(other)
    return unit, Masses(-last, 1, finite, units(heights[-1]))
