"""One message about the truth among messages that name random values: how many hide it.

LWY22 is Luo, Wang, Yi, *Frequency Estimation in the Shuffle Model with Almost a Single Message*,
CCS 2022. A message names a set of values. A user sends one whose set contains the true value, and
up to t others, each with some probability, that are uniform on all messages. Each value is in a
part rho of all sets. With M the number of random messages about x or x', M ~ Bin(h t, 2 p rho) for
h honest users and the probability p,

    delta(eps) <= E[D(M)],   D(m) = P[Bin(m, 1/2) <= c] - e^eps P[Bin(m, 1/2) <= c - 1]

where c is the largest integer below (m + 1) / (1 + e^eps). With one value in each set the two are
equal. Proofs: :ref:`proof-lwy22`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc

from ikos._validation import integer, number, round_down
from ikos.accounting.solve import bisect
from ikos.randomized_response import grid_up

MAX_MESSAGES = 1 << 20
"""Most random messages of one user."""

_CELLS = 1 << 13
_MOST_MEAN = 1e11  # up to which the relative error of scipy's binomial tails is below 1e-9
_SLACK = 1e-8
_TINY = 1e-290  # exceeds anything that underflows


def _pair_divergences(epsilon: float, m: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return bounds on D(m), which fall as m grows."""
    odds = math.exp(epsilon)
    c = np.ceil((m + 1) / (1 + odds)) - 1
    upto = np.where(c < m, betainc(np.maximum(m - c, 1), c + 1, 0.5), 1.0)
    before = np.where(c > 0, betainc(m - c + 1, np.maximum(c, 1), 0.5), 0.0)
    bound = upto * (1 + _SLACK) - odds * before * (1 - _SLACK)
    return np.asarray(np.minimum.accumulate(np.clip(bound, 0.0, 1.0)))


@lru_cache(maxsize=4096)
def random_messages_delta(
    epsilon: float | Fraction, messages: int, chance: float | Fraction
) -> float:
    """Return a delta of one true message among random ones, rounded up.

    Parameters
    ----------
    epsilon : float
        From 0 to 100.
    messages : int
        How many random messages the honest users send at most, h t.
    chance : float or Fraction
        Probability that one is sent and names one of two given values, 2 p rho, in (0, 1].

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
    # D(M) at the lower end of M's cell: any cells from 0 on give an upper bound
    reach = 25 * math.sqrt(mean) + 100
    first, last = max(0.0, mean / math.cosh(eps / 2) - reach), min(mean + reach, most)
    ends = np.unique(np.concatenate(([0.0], np.linspace(first, last, _CELLS).round())))
    divergence = _pair_divergences(eps, ends)
    below = betaincc(ends[1:], most - ends[1:] + 1, hit)  # P[M < end]
    total = float(np.sum(below * -np.diff(divergence))) + float(divergence[-1])
    return min(1.0, total * (1 + _SLACK) + _TINY)


@lru_cache(maxsize=1024)
def random_messages(
    epsilon: Fraction, delta: Fraction, honest: int, share: Fraction
) -> tuple[int, Fraction]:
    """Return how many random messages a user sends at most, and the probability of each.

    Their mean is within 10^-4 of the smallest found for which `random_messages_delta` is at most
    ``delta``, for ``honest`` users and a ``share`` rho of at most 1/2; the probability is a
    multiple of 2^-53. ValueError above 2^20.
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
            raise ValueError(
                f"n or epsilon must be larger, got {honest:,} honest users and {float(epsilon):g}: "
                f"each would send more than {MAX_MESSAGES:,} random messages"
            )
    return split(bisect(private, mean, mean / 2, close=1e-4, geometric=True))
