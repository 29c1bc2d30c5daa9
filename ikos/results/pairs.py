"""Intervals for sums, counts and means that are read off a pair of noisy sums, high and low.

A user whose value is a fraction u of the way between public bounds adds u to the high sum and 1 - u
to the low one, after rounding of u to a multiple of 1 / p. Of N users who add up to S, the sums are
S + X + R and N - S + Y - R, with independent noises X and Y and the error R of rounding. High plus
low is a count, without error of rounding; high over high plus low is a mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos.numeric.distributions import Divisible, PolyaDifference
from ikos.primitives.modular import blocks
from ikos.results.sums import Interval

_CELLS = 1 << 9  # of [0, 1/2], each with a half width for the means in it
_COARSE = 1 << 7  # the same, where half widths take longer
_TOGETHER = 1 << 12
_MARGIN = 1e-9  # relative error of half widths


@dataclass(frozen=True)
class PairError:
    """The errors of linear combinations of two noisy sums, in users.

    Each sum has its own ``noise``, in steps of which a user has ``precision``; ``rounded`` is the
    number of users whose values are rounded at random, 0 if values are whole steps. If they are
    ``centred``, high and low are N / 2 + D and N / 2 - D, of D + X + R and N + 2 Y with noise.
    """

    noise: Divisible
    precision: int
    rounded: int
    centred: bool = False

    def half_width(self, a: float, b: float, c: float, miss: float) -> float:
        """Return t with P[abs(a X + b Y + c R) > t] <= miss."""
        if miss <= 0:
            return math.inf
        return _half_width(self, max(a, b), min(a, b), c, miss) / self.precision

    def mean_interval(self, high: ArrayLike, low: ArrayLike, miss: float) -> Interval:
        """Return intervals for S / N that each fail with probability <= miss, for every N >= 0.

        By Fieller's method: at the true mean mu, T = (1 - mu) high - mu low is (1 - mu) X - mu Y +
        R, or if centred X + (1 - 2 mu) Y + R, whose law depends on neither S nor N. The interval is
        the smallest that contains all mu in [0, 1] at which abs(T) is at most its half width;
        negative sums count as 0 there, which only adds such mu. Where nothing is excluded, it is
        [0, 1].
        """
        x, y = (np.maximum(np.asarray(sums, dtype=np.float64), 0.0) for sums in (high, low))
        if miss <= 0:
            return Interval(np.zeros(x.shape), np.ones(x.shape))
        ends = np.empty((2, x.size))
        for part in blocks(x.size, _TOGETHER):
            ends[:, part] = _excluded(x.ravel()[part], y.ravel()[part], *_widths(self, miss))
        return Interval(*ends.reshape(2, *x.shape))


def _excluded(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    edges: NDArray[np.float64],
    widths: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of the means mu that abs(x - (x + y) mu) does not exclude, cell by cell."""
    x, total = x[:, np.newaxis], np.where(x + y > 0, x + y, 1.0)[:, np.newaxis]
    first = np.maximum((x - widths) / total * (1 - _MARGIN) - _MARGIN, edges[:-1])
    last = np.minimum((x + widths) / total * (1 + _MARGIN) + _MARGIN, edges[1:])
    empty = first > last
    return np.where(empty, 1.0, first).min(axis=1), np.where(empty, 0.0, last).max(axis=1)


@lru_cache(maxsize=1024)
def _half_width(error: PairError, a: float, b: float, c: float, miss: float) -> float:
    """Return a half width in steps, for a >= b >= 0."""
    scale = _laplace_scale(error.noise)
    if scale is None:
        weights = np.array([a, b][: 1 + (b > 0)])
        counts = np.ones(weights.size, np.int64)
        rounding = c**2 * error.rounded / 4
        return float(error.noise.linear_half_width(weights, counts, miss, rounding=rounding))
    goal = miss * _rounding_factor(error, c / a, scale)
    return float((scale * _tail_inverse(a, b, goal) + a + b) * (1 + _MARGIN))


@lru_cache(maxsize=64)
def _widths(error: PairError, miss: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return edges of cells of means, and a half width of T, in users, for all means of each cell.

    For weights 1 - mu and mu, the noise is less peaked the further mu is from 1/2 (F. Proschan,
    *Peakedness of distributions of convex combinations*, Ann. Math. Statist. 36, 1965, for
    symmetric log-concave laws), and Chernoff's bound is larger, by convexity; for weights 1 and
    1 - 2 mu, both are clear. The furthest mean of a cell has the largest half width.
    """
    scale = _laplace_scale(error.noise)
    edges = np.linspace(0, 0.5, (_COARSE if scale is None else _CELLS) + 1)
    mu, near = edges[:-1], edges[1:]
    a, b = (np.ones(mu.size), 1 - 2 * mu) if error.centred else (1 - mu, mu)
    if scale is None:
        least = (a, 1 - 2 * near) if error.centred else (1 - near, mu)
        far, less = np.stack((a, b), axis=1), np.stack(least, axis=1)
        half = error.noise.linear_half_width(
            far, np.ones(far.shape, np.int64), miss, rounding=error.rounded / 4, least=less
        )
    else:
        goal = miss * _rounding_factor(error, 1 / a.min() if error.centred else 2.0, scale)
        half = (scale * _tail_inverse(a, b, goal) + a + b) * (1 + _MARGIN)
    half /= error.precision
    return np.concatenate((edges, 1 - mu[::-1])), np.concatenate((half, half[::-1]))


def _laplace_scale(noise: Divisible) -> float | None:
    """Return the scale of discrete Laplace noise, None for others."""
    whole = isinstance(noise, PolyaDifference) and noise.shape == 1
    return float(1 / noise.rate) if whole else None


def _rounding_factor(error: PairError, ratio: float, scale: float) -> float:
    """Return the factor by which rounding makes misses of Laplace noise rarer to be allowed.

    The survival function S of a X + b Y is log-concave, and the slope of -log S at most h = 1 / (a
    scale): P[a X + b Y + c R > t] <= S(t) E exp(h c R), and by Hoeffding's lemma the latter is at
    most exp((c / a / scale)^2 users / 8). The ``ratio`` bounds c / a.
    """
    return math.exp(-error.rounded * (ratio / scale) ** 2 / 8)


def _tail_inverse(a: ArrayLike, b: ArrayLike, miss: float) -> NDArray[np.float64]:
    """Return t with P[abs(a X + b Y) > t] = miss for Laplace variables of scale 1, a >= b >= 0.

    The probability is (a^2 exp(-t/a) - b^2 exp(-t/b)) / (a^2 - b^2). Discrete Laplace variables are
    floor(E/r) - floor(F/r) of exponential ones, where E/r - F/r has scale 1/r: within one step.
    """
    big, small = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(b, np.float64))
    low, high = np.zeros(big.shape), big * (2 * math.log(1 / miss))  # (1 + x/2) e^-x <= e^(-x/2)
    with np.errstate(under="ignore", divide="ignore", invalid="ignore"):
        for _ in range(60):
            t = (low + high) / 2
            far = t * (big - small) / (big * small)
            # the second term without cancellation where a and b are close
            ratio = np.where(far > 0, -np.expm1(-far) / far, 1.0)
            ratio = np.where(small > 0, small * t * ratio / (big * (big + small)), 0.0)
            misses = np.exp(-t / big) * (1 + ratio) > miss
            low, high = np.where(misses, t, low), np.where(misses, high, t)
    return high
