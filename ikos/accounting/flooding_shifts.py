"""What negative binomial noise hides: shifts of NB(r, e^-a), in both directions.

NB(r, e^-a) has P[k] proportional to Gamma(k + r) / k! e^(-a k), k >= 0, and mean r / (e^a - 1). Let
f be its law and f_d that of K + d. For r >= 1 the likelihood ratio of f to f_d is monotone:

    "down", f against f_d:  ln f(k) / f(k - d)  falls with k, and is infinite for k < d;
    "up", f_d against f:    ln f(k) / f(k + d)  rises with k, to a d.

So the best tests are thresholds, their power rises with d, and the pair (f, f_d) is dominated by
(f, f_e) for e >= d: every divergence of the first is at most that of the second, and so it is for
products with other pairs.

Tails are regularized incomplete beta functions, correct to about 1e-13 of their value; results are
enlarged by far more than that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincc, gammaln, logsumexp

__all__ = ["ShiftMoments", "negative_binomial_divergence", "shift_moments"]

_SLACK = 1e-6
"""Relative enlargement of every computed divergence, and of the probability of its event."""

_LOG_SLACK = 1e-8
"""Enlargement of every log moment."""

_BLOCKS = 256
_TINY = 1e-320


def _below(r: float, a: float | NDArray[np.float64], k: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P[K < k]."""
    inside = betainc(r, np.maximum(k, 1.0), -np.expm1(-a))
    return np.asarray(np.where(k > 0, inside, 0.0), dtype=np.float64)


def _from(r: float, a: float | NDArray[np.float64], k: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P[K >= k]."""
    inside = betaincc(r, np.maximum(k, 1.0), -np.expm1(-a))
    return np.asarray(np.where(k > 0, inside, 1.0), dtype=np.float64)


def negative_binomial_divergence(
    shape: float, rate: ArrayLike, shift: ArrayLike, epsilon: ArrayLike
) -> NDArray[np.float64]:
    """Return the delta at which NB(shape, e^-rate) hides shifts at given epsilons.

    Parameters
    ----------
    shape : float
        At least 1.
    rate, epsilon : array_like of float
        One for each shift, or one for all; the rates positive.
    shift : array_like of int
        At least 1 each.

    Returns
    -------
    ndarray
        The larger hockey-stick divergence of both directions, rounded up by about 1e-6 of it and
        1e-6 of the probability of the event where it is attained.

    Examples
    --------
    The geometric law: mass 1 - e^(-rate d) has nothing on the other side.

    >>> negative_binomial_divergence(1.0, 0.5, [1, 2], [0.5, 1.0]).round(5)
    array([0.39347, 0.63212])
    """
    d, eps, a = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(given, np.float64)) for given in (shift, epsilon, rate))
    )

    def loss(k: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ln f(k) / f(k - d), for k >= d."""
        rising: NDArray[np.float64] = gammaln(k + shape) - gammaln(k - d + shape)
        falling: NDArray[np.float64] = gammaln(k + 1) - gammaln(k - d + 1)
        found: NDArray[np.float64] = rising - falling - a * d
        return found

    def first_at_most(level: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the smallest k >= d where the loss is at most a level above -a d."""
        low = d - 1
        high: NDArray[np.float64] = d + np.ceil((shape + 2) * d / np.maximum(level + a * d, 1e-300))
        for _ in range(64):
            middle = np.floor((low + high) / 2)
            small = loss(np.maximum(middle, d)) <= level
            high = np.where(small & (middle > low), middle, high)
            low = np.where(~small & (middle > low), middle, low)
        return high

    # down: the event K < k with k the first where the loss is at most epsilon
    k = first_at_most(eps)
    event = _below(shape, a, k)
    down = event - np.exp(eps) * _below(shape, a, k - d) + _SLACK * event
    # up: the event K + d >= k with k the first where -loss is at least epsilon, if it ever is
    k = first_at_most(np.where(a * d > eps, -eps, np.inf))
    event = _from(shape, a, k - d)
    up = event - np.exp(eps) * _from(shape, a, k) + _SLACK * event
    up = np.where(a * d > eps, up, 0.0)
    larger: NDArray[np.float64] = np.maximum(np.maximum(down, up), 0.0) * (1 + _SLACK)
    return np.minimum(larger, 1.0)


@dataclass(frozen=True)
class ShiftMoments:
    """Bounds of log moments of the loss between NB and its shifts, for several orders.

    Attributes
    ----------
    up, down : (shifts, orders) ndarray
        ln E exp(order * loss), rounded up and at least 0, of f_d against f and of f against f_d;
        the latter without the outcomes of probability ``lost``; infinite where those do not
        suffice.
    lost : float
        Probability of the outcomes left out, which counts in full as delta.
    """

    up: NDArray[np.float64]
    down: NDArray[np.float64]
    lost: float


def shift_moments(
    shape: int, rate: float, shifts: NDArray[np.int64], orders: NDArray[np.float64], lost: float
) -> ShiftMoments:
    """Return bounds of the moments of losses, from blocks of outcomes at their largest loss.

    Parameters
    ----------
    shape : int
        Integer, at least 1: losses are then short sums without cancellation.
    rate : float
        Positive.
    shifts : (k,) ndarray of int
        At least 1 each.
    orders : (m,) ndarray of float
        Positive.
    lost : float
        How much probability the smallest outcomes may have that are left out of ``down``.
    """
    first = _quantile(shape, rate, lost)
    top = (shape + 16 * math.sqrt(shape) + 25) / rate + first + 2
    edges = np.ceil(np.linspace(first ** (1 / 3), top ** (1 / 3), _BLOCKS) ** 3)
    edges = np.unique(np.maximum(edges, first))
    edges[0] = first
    below = np.append(_below(shape, rate, edges), 1.0)
    above = np.append(_from(shape, rate, edges), 0.0)
    mass = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
    log_mass = np.log(np.maximum(mass, _TINY))
    start = math.log(max(below[0], _TINY))
    j = np.arange(1, shape, dtype=np.float64)[:, np.newaxis]
    ends = np.append(edges[1:] - 1, np.inf)

    up, down = np.empty((shifts.size, orders.size)), np.empty((shifts.size, orders.size))
    for row, d in enumerate(shifts.tolist()):
        rising = rate * d - np.log1p(d / (ends + j)).sum(axis=0)
        moment = logsumexp(orders[:, np.newaxis] * rising + log_mass, axis=1)
        if first > 0:
            least = rate * d - float(np.log1p(d / (first - 1 + j)).sum())
            moment = np.logaddexp(moment, orders * least + start)
        up[row] = moment
        if d > first:
            down[row] = np.inf
        else:
            falling = -rate * d - np.log1p(-d / (edges + j)).sum(axis=0)
            down[row] = logsumexp(orders[:, np.newaxis] * falling + log_mass, axis=1)
    return ShiftMoments(
        np.maximum(up, 0.0) + _LOG_SLACK,
        np.maximum(down, 0.0) + _LOG_SLACK,
        float(below[0]) * (1 + _SLACK),
    )


def _quantile(shape: int, rate: float, lost: float) -> int:
    """Return a k, the largest up to one, with P[K < k] at most ``lost``."""
    low, high = 0, math.ceil(shape / rate) + 2
    while high - low > 1:
        middle = (low + high) // 2
        if float(_below(shape, rate, np.array([float(middle)]))[0]) <= lost:
            low = middle
        else:
            high = middle
    return low
