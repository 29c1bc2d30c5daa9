"""One message about the true value, hidden by messages that name random values.

LWY22 is Luo, Wang, Yi, *Frequency Estimation in the Shuffle Model with Almost a Single Message*,
CCS 2022. A message names a set of values. A user sends one whose set contains the true value, and
up to t others, each with some probability, that are uniform on all messages. Each value is in a
fraction rho of all sets. With M the number of random messages about x or x', M ~ Bin(h t, 2 p rho)
for h honest users and the probability p,

    delta(eps) <= E[D(M)],   D(m) = P[Bin(m, 1/2) <= c] - e^eps P[Bin(m, 1/2) <= c - 1]

where c is the largest integer below (m + 1) / (1 + e^eps). With one value in each set the two are
equal. Proofs: :ref:`proof-lwy22`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ikos._validation import InvalidValue, integer, number, round_down
from ikos.accounting.blanket import SLACK, shortfall
from ikos.numeric.binomial import binomial_window, log_pmf
from ikos.numeric.search import bisect
from ikos.primitives.randomized_response import grid_up

MAX_MESSAGES = 1 << 20
"""Most random messages of one user."""

_CELLS = 1 << 13  # largest number of values of M that are tried
_TINY = 1e-290  # larger than any quantity that underflows
_MOST_MEAN = 1e11  # up to which the error of a window's probabilities is within `SLACK`
_MAX_DEPTH = 1024


def _inside(odds: float, messages: int, chance: float, mass: float) -> float:
    """Return a bound on E[D(M)] but for e^-mass of M, by D at the lower ends of cells.

    With s = m + 1, S = Bin(s, 1/2) and ``odds`` for e^eps, D(m) is 2 (1 + odds) / s times
    E[(s / (1 + odds) - S)_+].
    """
    window = binomial_window(
        messages, chance, chance / (1 - chance) if chance < 1 else math.inf, mass
    )
    start = np.unique(np.linspace(0, window.pmf.size - 1, _CELLS).round())
    s = window.first + start + 1
    edge = s / (1 + odds)
    b = np.floor(edge)
    weight = np.add.reduceat(window.pmf, start.astype(np.intp)) * np.exp(log_pmf(b, s, 0.5)) / s
    depth = 16
    while True:
        ends = shortfall(s, edge, b, depth)
        least, most = (2 * (1 + odds) * float(np.dot(weight, end)) for end in ends)
        if most - least <= 1e-9 * most or depth >= _MAX_DEPTH:
            return most
        depth *= 4


@lru_cache(maxsize=4096)
def random_messages_delta(
    epsilon: float | Fraction, messages: int, chance: float | Fraction
) -> float:
    """Return a delta of one true message among random ones, in both orders, rounded up.

    Parameters
    ----------
    epsilon : float
        From 0 to 100.
    messages : int
        Largest number of random messages of all honest users, h t.
    chance : float or Fraction
        Probability that a random message is sent and names one of two fixed values, 2 p rho, in (0,
        1].

    Examples
    --------
    >>> round(random_messages_delta(1, 3, 1), 6)  # 1/2 - e/8
    0.160215
    """
    eps = round_down(number("epsilon", epsilon, low=0, high=100))
    most = integer("messages", messages, low=0)
    hit = round_down(number("chance", chance, above=0, high=1))
    mean = most * hit
    if not 0 < mean <= _MOST_MEAN:
        return 1.0
    odds, mass = max(1.0, math.exp(eps) * (1 - 1e-13)), 50.0
    while True:
        inside, left_out = _inside(odds, most, hit, mass), math.exp(-mass)
        if left_out <= 1e-9 * inside or mass > 660:
            return min(1.0, (inside + left_out) * (1 + SLACK) + _TINY)
        mass *= 3


@lru_cache(maxsize=1024)
def random_messages(
    epsilon: Fraction, delta: Fraction, honest: int, share: Fraction
) -> tuple[int, Fraction]:
    """Return the largest number of random messages per user, and the probability of each.

    Their mean is within 10^-4 of the smallest found for which `random_messages_delta` is at most
    ``delta``, for ``honest`` users and a fraction rho, ``share``, of at most 1/2; the probability
    is a multiple of 2^-53. ValueError above 2^20.
    """

    def split(mean: float) -> tuple[int, Fraction]:
        most = max(1, math.ceil(mean))
        return most, min(Fraction(1), grid_up(mean / most))

    def private(mean: float) -> bool:
        most, chance = split(mean)
        return random_messages_delta(epsilon, honest * most, 2 * share * chance) <= delta

    mean = float(1 / (2 * share * honest))
    while not private(mean):
        mean *= 2
        if mean > MAX_MESSAGES:
            raise InvalidValue(
                "n or epsilon",
                f"must be larger, got {honest} honest users and {float(epsilon):g}: "
                f"each would send more than {MAX_MESSAGES} random messages",
            )
    return split(bisect(private, mean, mean / 2, close=1e-4, geometric=True))
