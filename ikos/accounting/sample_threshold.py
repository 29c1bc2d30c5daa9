"""Sample and threshold: the privacy of a count of sampled ones if small counts are suppressed.

Each of t ones is sampled with probability p; the count Y ~ Bin(t, p) is published if it is at least
tau, and 0 otherwise (G. Cormode, A. Bharadwaj, *Sample-and-threshold differential privacy*, 2022).
Every t is computed up to where Chernoff's bounds are small enough: :ref:`proof-sample-threshold`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidValue, number, round_down
from ikos.numeric.binomial import Floats, above, at_most, log_pmf
from ikos.numeric.search import bisect_integers
from ikos.numeric.underflow import may_underflow
from ikos.primitives.randomized_response import grid_up

_MAX_COUNTS = 1 << 21  # most values of t examined
_SLACK = 1e-8  # relative error allowed for binomial probabilities and scipy's tails
_BLOCK = 1 << 16
_CELLS = 2000
_SOME = 128


def _largest(eps: float, t: NDArray[np.float64], p: float, tau: int, least: float) -> float:
    """Return the larger of ``least`` and of both directions for every t, rounded up."""
    growth, factor = math.expm1(eps), math.exp(eps)
    t, shifts = np.broadcast_arrays(t, [[-1.0], [0.0], [1.0]])
    for scale, tail, y in (
        (p, above, np.floor(t * (1 - (1 - p) / factor)) + shifts),
        (factor * p, at_most, np.ceil(t * (1 - (1 - p) * factor)) - 1 + shifts),
    ):
        y = np.clip(y, tau - 1, t - 1)
        first = scale * np.exp(log_pmf(y, t - 1, p)) * (1 + _SLACK)
        # the others are at most this even before a tail is subtracted
        large = first > least
        rest = growth * tail(y[large], t[large] - 1, p) * (1 - _SLACK)
        least = max(least, float((first[large] - rest).max(initial=0.0)))
    return least


def _negligible_from(eps: float, p: float, goal: float) -> float:
    """Return t from which on both divergences are at most ``goal``, by Chernoff's bounds."""
    beyond = (1 - p) * math.exp(-eps)  # 1 - q
    entropy = (1 - beyond) * math.log1p((1 - p - beyond) / p) - beyond * eps
    result = -math.log(goal) / entropy
    short = (1 - p) * math.exp(eps)  # 1 - r
    if short < 1:
        entropy = short * eps + (1 - short) * math.log1p((1 - p - short) / p)
        result = max(result, -(math.log(goal) + math.log1p(-p)) / entropy)
    return result * (1 + 1e-3) + 1  # the entropies cancel, by less than 1e-4 of them


def largest_divergence(eps: float, n: int, p: float, tau: int, goal: float) -> float:
    """Return a bound on delta; not less than ``goal``, unless every t was computed."""
    last = min(n, math.ceil(min(_negligible_from(eps, p, goal), 1e18)))
    if last - tau >= _MAX_COUNTS:
        raise InvalidValue(
            "epsilon",
            f"is too small, or sampling too close to 0 or 1: more than {_MAX_COUNTS} "
            f"counts matter, at epsilon = {eps:g} and sampling = {p:g}",
        )
    worst = goal if last < n else 0.0
    for start in range(tau, last + 1, _BLOCK):
        t = np.arange(start, min(start + _BLOCK, last + 1), dtype=np.float64)
        worst = _largest(eps, t, p, tau, worst)
    return worst


def smallest_threshold(eps: float, delta: float, n: int, p: float, *, every: bool = True) -> int:
    """Return the smallest private threshold, by every t or, as a sketch, some; n + 1 for none."""
    last = math.ceil(min(_negligible_from(eps, p, delta), n))

    def private(tau: int) -> bool:
        counts = np.unique(np.geomspace(tau, max(tau, last), _SOME).round())
        if _largest(eps, counts, p, tau, delta) > delta:
            return False
        return not every or largest_divergence(eps, n, p, tau, delta) <= delta

    return min(bisect_integers(private, last + 1, 0), n + 1)


@may_underflow()
def suppression(
    s: NDArray[np.float64], n: int, sampling: float, threshold: int, *, bits: bool = False
) -> NDArray[Any]:
    """Bound the probability that a sum of at least s of n values, rounded to bits, is suppressed.

    If the values are bits, it is the binomial probability for s ones.
    """
    count, mean = (np.floor(s), sampling) if bits else (n, np.minimum(sampling * s / n, 1.0))
    bound = at_most(threshold - 1, count, mean) * (1 + _SLACK)
    return np.where(threshold <= sampling * s * (1 - 1e-12), np.minimum(bound, 1.0), 1.0)


def sampled_variance(
    low: Floats | float, high: Floats | float, n: int, p: float, *, bits: bool = False
) -> Any:
    """Return the largest variance of count/p for a sum of n values from ``low`` to ``high``.

    It is s/p minus the sum of the squares of the values: at least s^2/n, and s if they are bits.
    """
    if bits:
        return high * (1 - p) / p
    s = np.clip(n / (2 * p), low, high)
    return s / p - s * s / n


@may_underflow()
def sample_threshold_mse(n: int, p: float, tau: int, *, bits: bool = False) -> float:
    """Bound the mean squared error of count/p, or of 0 if suppressed, for n values in [0, 1].

    They may be ``bits``, which are not rounded.
    """
    start = min(tau / p, float(n))
    ends = np.unique(np.concatenate(([0.0], np.geomspace(start, n, _CELLS), [float(n)])))
    low, high = ends[:-1], ends[1:]
    suppressed = suppression(low, n, p, tau, bits=bits)
    cells = sampled_variance(low, high, n, p, bits=bits) + high * high * suppressed
    first = sampled_variance(0.0, start, n, p, bits=bits) + start * start
    return float(max(first, cells.max()))


@dataclass(frozen=True)
class SampleThreshold:
    """Parameters of sample and threshold, and a bound on the error, suppression included.

    ``sampling`` is a multiple of 2^-53; counts below ``threshold`` are suppressed.
    """

    sampling: Fraction
    threshold: int
    mse: float


@lru_cache(maxsize=64)
def best_sample_threshold(
    epsilon: float | Fraction, delta: float | Fraction, n: int, *, bits: bool = False
) -> SampleThreshold:
    """Return the parameters with the smallest bound on the error that a search finds.

    The best 1 - p is of the order of n^(-1/3): rare sampling adds much noise to large sums, and
    frequent sampling needs a large threshold. ValueError if every count would have to be
    suppressed.
    """
    eps = round_down(number("epsilon", epsilon, low=1e-6, high=100))
    small = round_down(number("delta", delta, above=0, below=1))

    @cache
    def sketch(step: int) -> float:
        p = float(_sampling(step))
        tau = smallest_threshold(eps, small, n, p, every=False)
        return sample_threshold_mse(n, p, tau, bits=bits) if tau <= n else math.inf

    # On a coarse grid and then between its best points; some t indicate how good p is.
    width = 16
    best = min(range(-64, 129, width), key=sketch)
    while width > 1:
        width //= 2
        best = min((best - width, best, best + width), key=sketch)
    sampling = _sampling(best)
    p = float(sampling)  # exactly: of 53 bits
    tau = smallest_threshold(eps, small, n, p)
    if tau > n:
        raise ValueError(
            f"n = {n} is too small for sample and threshold with epsilon = {eps:g} and "
            f"delta = {small:g}: every count would be suppressed"
        )
    return SampleThreshold(sampling, tau, sample_threshold_mse(n, p, tau, bits=bits))


def _sampling(step: int) -> Fraction:
    return grid_up(1 / (1 + math.exp(-step / 8)))
