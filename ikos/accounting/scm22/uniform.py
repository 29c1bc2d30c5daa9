"""Answers about t of d coordinates that are drawn without replacement: what they guarantee.

Few others may have drawn a coordinate. With what chance too few did is part of the delta.
"""

from __future__ import annotations

from fractions import Fraction

from scipy.stats import binom

from ikos._validation import integer, number, round_down
from ikos.accounting.blanket import MAX_USERS
from ikos.accounting.scm22.repeated import MAX_VALUES, TINY, Delta, proved_repeated
from ikos.accounting.shuffled_response import (
    MAX_EPSILON,
    MIN_EPSILON,
)
from ikos.randomized_response import grid_down


def _missing(m: int, n: int, d: int, t: int) -> float:
    """Return a bound of t P[N + 1 < m] for N ~ Bin(n - 1, t / d), rounded up."""
    if t == d:
        return 0.0 if m <= n else 1.0
    return min(1.0, t * float(binom.cdf(m - 2, n - 1, t / d)) * (1 + 1e-6))


def least_users(n: int, d: int, t: int, tail: float) -> int:
    """Return the largest m with t P[N + 1 < m] at most ``tail``; 1 is always enough."""
    low, high = 1, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _missing(middle, n, d, t) <= tail else (low, middle)
    return low


def uniform_delta(
    epsilon: float | Fraction,
    n: int,
    d: int,
    k: int,
    gamma: float | Fraction,
    t: int,
    *,
    delta: float = 1e-9,
) -> float:
    """Return a delta of t answers about t of d coordinates, drawn without replacement.

    The answers are messages of their own; see the module on those that travel together.

    Parameters
    ----------
    epsilon, k, gamma, delta
        As of `repeated_delta`.
    n : int
        Users.
    d : int
        Coordinates.
    t : int
        Coordinates that each user draws, at most d.

    Returns
    -------
    float
        t P[N + 1 < m] plus `repeated_delta` among m users, for the best m of a few.

    Examples
    --------
    >>> f"{uniform_delta(1, 10**5, 100, 4, 0.15, 4):.0e}"
    '6e-08'
    """
    eps = number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
    users = integer("n", n, low=1, high=MAX_USERS)
    coordinates = integer("d", d, low=1)
    values = integer("k", k, low=2, high=MAX_VALUES)
    chance = grid_down(number("gamma", gamma, above=0, high=1))
    count = integer("t", t, low=1, high=coordinates)
    expected = float(number("delta", delta, above=0, below=1))
    return proved_uniform(round_down(eps), users, coordinates, values, chance, count, expected)[0]


def proved_uniform(
    eps: float, n: int, d: int, k: int, gamma: Fraction, t: int, expected: float
) -> Delta:
    """Return the divergence of `uniform_delta`, and what proves it; nothing is checked."""
    if t in (1, d):  # one coordinate, or all of them
        return proved_repeated(eps, n, k, gamma, t, expected)
    best: Delta = (1.0, "basic", "exact")
    tail = expected / 20
    for _ in range(4):  # the fewer users are asked for, the less likely they are missing
        m = least_users(n, d, t, tail)
        hidden, method, accountant = proved_repeated(eps, m, k, gamma, t, expected)
        here = min(1.0, (_missing(m, n, d, t) + hidden) * (1 + 1e-12))
        if here >= best[0]:
            break
        best = (here, method, accountant)
        if here < TINY:
            break
        tail *= 1e-5
        expected = here
    return best
