"""SCM22's own formulas, as printed: they guarantee nothing, see the errata in the documentation."""

from __future__ import annotations

import math
from fractions import Fraction

from ikos._validation import integer, number, round_down
from ikos.accounting.blanket import MAX_USERS
from ikos.randomized_response import GRID

MOST = 1 << 53  # of sizes counted in doubles


def response_shares(gamma: object) -> tuple[float, float]:
    """Return a probability of random answers below 1, and that of the others, both as doubles."""
    random = number("gamma", gamma, low=0, below=1)
    return float(random), float(number("1 - gamma", 1 - random, low=1 / GRID))


def budget(epsilon: object, delta: object) -> tuple[float, float]:
    """Check and return a budget, rounded down."""
    eps = number("epsilon", epsilon, above=0, low=1e-100, high=6)
    return round_down(eps), round_down(number("delta", delta, above=0, low=1e-300, below=1))


def sizes(n: object, d: object, k: object, t: object = 1) -> tuple[int, int, int, int]:
    """Check and return users, coordinates, steps of the rounding and messages."""
    coordinates = integer("d", d, low=1, high=MOST)
    return (
        integer("n", n, low=2, high=MAX_USERS),
        coordinates,
        integer("k", k, low=1, high=MOST),
        integer("t", t, low=1, high=coordinates),
    )


def published_gamma(
    epsilon: float | Fraction, delta: float | Fraction, n: int, d: int, k: int, t: int
) -> float:
    """Return the gamma of SCM22, Theorem 4.1, for t coordinates; it may exceed 1.

    ``56 d k ln(1/delta) ln(2t/delta) / ((n-1) eps^2)``, with 2016 for 56 if epsilon is above 1. Its
    proof is not sound: see the errata of the documentation.
    """
    eps, small = budget(epsilon, delta)
    users, coordinates, steps, count = sizes(n, d, k, t)
    constant = 56 if eps <= 1 else 2016
    logs = math.log(1 / small) * math.log(2 * count / small)
    return constant * coordinates * steps * logs / ((users - 1) * eps**2)


def published_single_gamma(
    epsilon: float | Fraction, delta: float | Fraction, n: int, d: int, k: int
) -> float:
    """Return the gamma of SCM22, Section 4.5, for one coordinate; it may exceed 1.

    ``max(14 d k ln(2/delta) / ((n-1) eps^2), 27 d k / ((n-1) eps))``, or, if epsilon is above 1,
    ``max(80 d k ln(2/delta) / ((n-1) eps^2), 36 d k / (11 (n-1) eps))``.
    """
    eps, small = budget(epsilon, delta)
    users, coordinates, steps, _ = sizes(n, d, k)
    return closed_gamma(eps, small, users, coordinates * steps)


def closed_gamma(eps: float, small: float, users: int, values: int) -> float:
    """Return the gamma of Section 4.5, with any number of values in place of d k."""
    first, second = (14.0, 27.0) if eps <= 1 else (80.0, 36 / 11)
    square = first * math.log(2 / small) / eps**2
    return values * max(square, second / eps) / (users - 1)


def published_precision(
    epsilon: float | Fraction, delta: float | Fraction, n: int, d: int, t: int = 1
) -> float:
    """Return the k of SCM22, Sections 4.4 and 4.5, a real number.

    It makes the two terms of the error equal. The bound is smallest at 2^(1/3) times as many.
    """
    eps, small = budget(epsilon, delta)
    users, coordinates, _, count = sizes(n, d, 1, t)
    # the error is 1 / (4 k^2) + gamma / 2, with gamma proportional to k
    if count == 1:  # the paper writes n for n - 1 here
        gamma = published_single_gamma(eps, small, users, coordinates, 1)
        gamma *= (users - 1) / users
    else:
        gamma = published_gamma(eps, small, users, coordinates, 1, count)
    return float((1 / (2 * gamma)) ** (1 / 3))
