"""What negative binomial noise hides: shifts of NB(r, e^-a), in both directions.

NB(r, e^-a) has P[k] proportional to Gamma(k + r) / k! e^(-a k), k >= 0. Let f be its distribution
and f_d that of K + d. "down" is f against f_d, with an infinite loss below d; "up" is f_d against
f, with losses up to a d. Tails are sums of positive terms, correct to 5e-9 of their value; results
are enlarged by more than that. Proofs: :ref:`proof-shifts`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from ikos._validation import integer, number

_SLACK = 1e-8  # relative enlargement of probabilities and divergences, and absolute of log moments
_ETA = 1e-12  # relative error allowed for in a loss
_MAX_SHAPE = 1 << 12  # largest shape, with which rounding errors grow
_MAX_RATE = 100  # largest rate: there is almost no noise
_BLOCKS = 256
_TOGETHER = 1 << 22
_TINY = 1e-300  # least probability: smaller doubles have fewer digits

Floats = NDArray[np.float64]


def _terms(r: int, a: Floats | float, k: Floats, many: int) -> tuple[Floats, Floats, Floats]:
    """Return trials, odds, and logarithms of P[j successes] for j = 1, ..., many.

    K < k means r successes or more in k + r - 1 trials of chance 1 - e^-a.
    """
    trials, rate = np.broadcast_arrays(np.maximum(k, 1.0) + (r - 1), np.asarray(a, np.float64))
    odds = np.expm1(rate)
    j = np.arange(1, many + 1, dtype=np.float64)
    with np.errstate(divide="ignore"):
        steps = np.log(np.maximum(trials[:, np.newaxis] - j + 1, 0.0) * (odds[:, np.newaxis] / j))
    return trials, odds, np.cumsum(steps, axis=1) - (rate * trials)[:, np.newaxis]


def _from(r: int, a: Floats | float, k: Floats) -> Floats:
    """Return P[K >= k], to a relative error of at most 5e-9."""
    trials, _, logs = _terms(r, a, k, r - 1)
    above = np.exp(-trials * a) + np.exp(logs).sum(axis=1)
    return np.asarray(np.where(k > 0, above, 1.0))


def _below(r: int, a: Floats | float, k: Floats) -> Floats:
    """Return P[K < k], to a relative error of at most 5e-9.

    If the terms fall from j = r on they are added up. Otherwise the mode is above r, and the
    remainder is at least a half.
    """
    many = r + 64 + 8 * math.isqrt(r)
    trials, odds, logs = _terms(r, a, k, many)
    # ratios of terms fall: from the last one on, the rest is at most a geometric series
    ratio = np.clip((trials - many) * odds / (many + 1), 0.0, 0.99)
    terms = np.exp(logs[:, r - 1 :])
    below = terms.sum(axis=1) + terms[:, -1] * ratio / (1 - ratio)
    falling = (trials - r) * odds <= r + 1
    if not falling.all():
        below = np.where(falling, below, 1 - _from(r, a, k))
    return np.asarray(np.where(k > 0, below, 0.0))


def _rising(r: int, d: Floats, k: Floats) -> Floats:
    """Return T(k), the loss above its least value -a d; infinite for k < d."""
    apart = (k - d)[:, np.newaxis] + np.arange(1, r, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.log1p(d[:, np.newaxis] / apart).sum(axis=1)
    return np.asarray(np.where(k < d, np.inf, total), dtype=np.float64)


def _first_at_most(r: int, d: Floats, level: Floats) -> Floats:
    """Return the first k >= d where T(k) is at most a positive level.

    With x = k - d, T lies between (r - 1) ln(1 + d / (x + r / 2)), by convexity, and the same with
    x + 1 for x + r / 2.
    """
    if r == 1:
        return d
    with np.errstate(over="ignore"):
        x: Floats = d / np.expm1(level / (r - 1))
    low: Floats = np.maximum(np.floor(x - r / 2) - 2, -1.0) + d
    high: Floats = np.maximum(np.ceil(x) + 1, 0.0) + d
    for _ in range(r.bit_length() + 3):
        middle = np.floor((low + high) / 2)
        inner = (low < middle) & (middle < high)
        small = _rising(r, d, middle) <= level
        low = np.where(inner & ~small, middle, low)
        high = np.where(inner & small, middle, high)
    return high


def negative_binomial_divergence(
    shape: int, rate: ArrayLike, shift: ArrayLike, epsilon: ArrayLike
) -> Floats:
    """Return the delta at which NB(shape, e^-rate) hides shifts at given epsilons.

    The larger hockey-stick divergence of both directions, rounded up by about 1e-8 of it and of the
    probability of the event where it is attained. ``shape`` is an integer from 1 to 4096 (for
    others, use the one below), shifts are integers of at least 1; all but the shape broadcast.
    """
    r = integer("shape", shape, low=1, high=_MAX_SHAPE)
    d, eps, a = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(given, np.float64)) for given in (shift, epsilon, rate))
    )
    if not ((a > 0) & (a <= _MAX_RATE)).all():
        raise ValueError(f"rate must be above 0 and at most {_MAX_RATE}, got {a.min()}, {a.max()}")
    size = max(1, _TOGETHER // (2 * r + 128))
    parts = [
        _divergence(r, a[at : at + size], d[at : at + size], eps[at : at + size])
        for at in range(0, d.size, size)
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def _divergence(r: int, a: Floats, d: Floats, eps: Floats) -> Floats:
    eta = _ETA * (eps + a * d)
    less = np.exp(eps - 3 * eta) * (1 - _SLACK)
    k = _first_at_most(r, d, eps + a * d - eta)
    down = _below(r, a, k) * (1 + _SLACK) - less * _below(r, a, k - d)
    ever = a * d * (1 + _ETA) > eps
    k = _first_at_most(r, d, np.where(ever, a * d - eps + eta, 1.0))
    up = _from(r, a, k - d) * (1 + _SLACK) - less * _from(r, a, k)
    larger = np.maximum(down, np.where(ever, up, 0.0))
    return np.clip(larger * (1 + _SLACK) + _TINY, 0.0, 1.0)


@dataclass(frozen=True)
class ShiftMoments:
    """Bounds on log moments of the loss between NB and its ``shifts``, (shifts, orders).

    ln E exp(order * loss), rounded up and at least 0. ``down`` leaves out the smallest outcomes, of
    probability ``lost``, which counts in full as delta; it is infinite if that does not suffice.
    """

    shifts: NDArray[np.int64]
    up: Floats
    down: Floats
    lost: float


def shift_moments(
    shape: int, rate: float, shifts: NDArray[np.int64], orders: Floats, lost: float
) -> ShiftMoments:
    """Return bounds on the moments of losses, from blocks of outcomes at their largest loss.

    Shifts are at least 0, orders positive; ``down`` leaves out outcomes of at most ``lost``.
    """
    shape = integer("shape", shape, low=1, high=_MAX_SHAPE)
    number("rate", rate, above=0, high=_MAX_RATE)
    first = _quantile(shape, rate, lost)
    top = (shape + 16 * math.sqrt(shape) + 25) / rate + first + 2
    edges = np.ceil(np.linspace(first ** (1 / 3), top ** (1 / 3), _BLOCKS) ** 3)
    edges = np.unique(np.maximum(edges, first))
    edges[0] = first
    below = np.append(_below(shape, rate, edges), 1.0)
    above = np.append(_from(shape, rate, edges), 0.0)
    mass = np.where(
        below[1:] < 0.5, np.diff(below) + _SLACK * below[1:], -np.diff(above) + _SLACK * above[:-1]
    )
    log_mass = np.log(np.maximum(mass, _TINY))
    start = math.log(max(below[0] * (1 + _SLACK), _TINY))
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
    lost = float(below[0]) * (1 + _SLACK)
    up, down = (
        np.where(shifts[:, np.newaxis] > 0, np.maximum(moments, 0.0) + _SLACK, 0.0)
        for moments in (up, down)
    )
    return ShiftMoments(shifts, up, down, lost)


def _quantile(shape: int, rate: float, lost: float) -> int:
    """Return a k, at most one below the largest, with P[K < k] at most ``lost``."""
    low, high = 0, math.ceil(shape / rate) + 2
    while high - low > 1:
        between = np.unique(np.floor(np.linspace(low, high, 34)[1:-1]))
        fits = _below(shape, rate, between) <= lost
        low = int(between[fits][-1]) if fits.any() else low
        high = int(between[~fits][0]) if not fits.all() else high
    return low
