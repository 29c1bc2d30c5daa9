"""Composition of many copies of one mechanism, exactly: Kairouz, Oh, Viswanath.

The least private (e0, d0)-private mechanism reveals with probability d0 which of two neighbours it
was given, and otherwise answers by randomized response on two values with budget e0. Every other
one is a function of its answer (*The Composition Theorem for Differential Privacy*, ICML 2015,
KOV15). So k mechanisms with independent randomness together reveal at most what k copies of it do:

    delta(epsilon) = 1 - (1 - d0)^k (1 - R(epsilon)),
    R(epsilon) = sum_i C(k, i) e^((k - i) e0) / (1 + e^e0)^k (1 - e^(epsilon - (k - 2 i) e0))_+ .

R is the divergence of k answers by randomized response, of which i are false; all its terms are
positive.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import scipy

from ikos._validation import integer, number, quote, round_down, round_up
from ikos.accounting.solve import bisect
from ikos.results import at_most

MAX_COPIES = 1 << 22  # most copies
MAX_LOCAL = 60.0
"""Largest epsilon of a copy, and of the whole when a copy's is searched for."""

_SLACK = 1e-9  # relative error of a sum of binomial probabilities, generously
_LEAST = 1e-290  # exceeds what is lost if probabilities fall below the range of doubles


def optimal_delta(
    epsilon: float | Fraction,
    copies: int,
    local_epsilon: float | Fraction,
    local_delta: float | Fraction = 0,
) -> float:
    """Return the delta of many mechanisms together, from each one's: the best that holds for all.

    Parameters
    ----------
    epsilon : float
        Of the whole, at least 0.
    copies : int
        Number of mechanisms with independent randomness, from 1 to 2^22.
    local_epsilon, local_delta : float
        Of each: ``0 <= local_epsilon <= 60`` and ``0 <= local_delta <= 1``.

    Returns
    -------
    float
        For a local epsilon larger by a part of 1e-15, rounded up by a relative 1e-9 and 1e-290; 0.0
        only if it is 0. No smaller one holds for all such mechanisms (KOV15, Theorem 3.3).

    Examples
    --------
    >>> from ikos.accounting import advanced_composition
    >>> delta = optimal_delta(1.0, 1000, 0.0053)
    >>> f"{delta:.3g}", round(advanced_composition([(0.0053, 0.0)] * 1000, delta)[0], 2)
    ('4.77e-11', 1.17)
    """
    eps = round_down(number("epsilon", epsilon, low=0))
    k = integer("copies", copies, low=1, high=MAX_COPIES)
    local = round_up(number("local_epsilon", local_epsilon, low=0, high=MAX_LOCAL))
    d0 = round_up(number("local_delta", local_delta, low=0, high=1))
    return copies_delta(eps, k, local, d0)


def copies_delta(eps: float, k: int, local: float, d0: float = 0.0) -> float:
    """Return `optimal_delta` for doubles that are already rounded."""
    covered = Fraction(eps) >= k * Fraction(local)  # exactly: no loss is above epsilon
    if covered and not d0:
        return 0.0
    response = 0.0 if covered else _response(eps, k, local)
    if d0 >= 1 or response >= 1:
        return 1.0
    together = -math.expm1(k * math.log1p(-d0) + math.log1p(-response))
    return min(1.0, together * (1 + _SLACK) + _LEAST)  # also if a response came out as 0


def _response(eps: float, k: int, local: float) -> float:
    """Return R(eps) before it is rounded up, if some loss is above epsilon."""
    # Larger by more than the rounding below, where losses close to epsilon cancel.
    local *= 1 + 2.0**-50
    # Losses (k - 2 i) e0 above eps: i below (k - eps / e0) / 2.
    last = min(k, math.ceil((k - eps / local) / 2))
    chance = 1 / (1 + math.exp(local))
    spread = math.sqrt(k * chance) + 1
    # Below ``first`` there is less than e^-700, by Chernoff's bound.
    first = max(0, math.floor(min(last, k * chance) - 60 * spread - 60))
    total = 0.0
    for start in range(first, last + 1, 1 << 20):
        i = np.arange(start, min(last + 1, start + (1 << 20)), dtype=np.float64)
        beyond = np.minimum(eps - (k - 2 * i) * local, 0.0)
        total += float(np.dot(scipy.stats.binom.pmf(i, k, chance), -np.expm1(beyond)))
    return total


def optimal_local_epsilon(
    epsilon: float | Fraction,
    delta: float | Fraction,
    copies: int,
    local_delta: float | Fraction = 0,
) -> float:
    """Return the largest epsilon allowed for each of many mechanisms, rounded down.

    Parameters
    ----------
    epsilon, delta : float
        Of the whole, epsilon positive and at most 60, delta in (0, 1).
    copies : int
        Number of mechanisms with independent randomness.
    local_delta : float
        Of each.

    Returns
    -------
    float
        `optimal_delta` of it is at most delta, and exceeds delta for a number larger by a part of
        1e-7. At least ``epsilon / copies``, with which nothing is lost.

    Raises
    ------
    ValueError
        Also unless ``copies * local_delta`` is below delta by a small margin.


    Examples
    --------
    >>> round(optimal_local_epsilon(1.0, 1e-9, 1000), 5)
    0.00577
    """
    eps = round_down(number("epsilon", epsilon, above=0, high=MAX_LOCAL))
    allowed = round_down(number("delta", delta, above=0, below=1))
    k = integer("copies", copies, low=1, high=MAX_COPIES)
    d0 = round_up(number("local_delta", local_delta, low=0, high=1))
    low, high = eps / k * (1 - 1e-15), MAX_LOCAL
    if copies_delta(eps, k, low, d0) > allowed:
        together = max(0.0, allowed - _LEAST) * (1 - 4 * _SLACK)
        most = at_most(-math.expm1(math.log1p(-together) / k), 6)
        raise ValueError(
            f"local_delta must be at most {most} for {k:,} copies and "
            f"delta = {quote(delta)}, got {quote(local_delta)}"
        )

    def enough(local: float) -> bool:
        return copies_delta(eps, k, local, d0) <= allowed

    return bisect(enough, low, high, close=1e-7, geometric=True)
