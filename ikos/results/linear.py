"""Intervals for counts, sums, means and variances that are read off a few noisy sums.

A user whose value is a fraction u of the way between public bounds adds parts that are at least 0
and add up to one: u to a high sum and 1 - u to a low one, or u^2, 2 u (1 - u) and (1 - u)^2 to
three. They are rounded together to multiples of 1 / p, with the same total. Of N users, the sums
have independent noises and errors of rounding; all together are a count, without error of rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos.numeric.distributions import Divisible, PolyaDifference
from ikos.primitives.modular import blocks
from ikos.results.sums import Interval

_CELLS = 1 << 9  # of [0, 1/2], each with a half width for the means in it
_COARSE = 1 << 7  # the same, where half widths take longer
_TOGETHER = 1 << 12
_MARGIN = 1e-9  # relative error of half widths
_APART = 1.01  # a smaller ratio of the largest of three weights to the smallest loses digits

HIGH_OF_THREE = (1.0, 0.5, 0.0)
"""Weights of the high sum of parts u^2, 2 u (1 - u) and (1 - u)^2; reversed, of the low one."""

_OF_MEAN = 0.1  # part of a miss of a variance that is left to its mean, whose error counts squared
_MEANS, _VARIANCES = 64, 32  # cells of [0, 1/2] and of [0, 1/4], with a half width each


@dataclass(frozen=True)
class LinearError:
    """The errors of linear combinations of noisy sums, in users.

    Each sum has its own ``noise``, in steps of which a user has ``precision``; ``rounded`` is the
    number of users whose parts are rounded at random, 0 if they are whole steps.
    """

    noise: Divisible
    precision: int
    rounded: int

    def half_width(self, weights: Sequence[float], c: float, miss: float) -> float:
        """Return t with P[abs(T) > t] <= miss, for T the weighted noises and rounding.

        The error of rounding of a user's parts, weighted, is in an interval of at most c steps.
        """
        if miss <= 0:
            return math.inf
        return _half_width(self, tuple(weights), c, miss) / self.precision

    def mean_interval(
        self,
        high: ArrayLike,
        low: ArrayLike,
        miss: float,
        high_weights: Sequence[float] = (1.0, 0.0),
        low_weights: Sequence[float] = (0.0, 1.0),
    ) -> Interval:
        """Return intervals for S / N that each fail with probability <= miss, for every N >= 0.

        S and N - S plus noise are ``high`` and ``low``, combinations of the noisy sums with these
        weights; those of ``low`` are those of ``high`` for the parts of 1 - u, in place of u.

        By Fieller's method: at the true mean mu, T = (1 - mu) high - mu low is the weighted noises
        and rounding, whose law depends on neither S nor N. The interval is the smallest that
        contains all mu in [0, 1] at which abs(T) is at most its half width; negative sums count as
        0 there, which only adds such mu. Where nothing is excluded, it is [0, 1].
        """
        x, y = (np.maximum(np.asarray(sums, dtype=np.float64), 0.0) for sums in (high, low))
        if miss <= 0:
            return Interval(np.zeros(x.shape), np.ones(x.shape))
        edges, half = _widths(self, tuple(high_weights), tuple(low_weights), miss)
        ends = np.empty((2, x.size))
        for part in blocks(x.size, _TOGETHER):
            ends[:, part] = _excluded(x.ravel()[part], y.ravel()[part], edges, half)
        return Interval(*ends.reshape(2, *x.shape))

    def variance_interval(self, sums: NDArray[np.float64], miss: float) -> Interval:
        """Return intervals for variances, of three ``sums`` (3, ...): fractions of the width^2.

        At the true mean mu and variance v, T = Q(mu) - v N with Q(m) = (1 - m)^2 A - m (1 - m) B +
        m^2 C is weighted noise and rounding, whose law depends on mu and v only. The interval has
        all v at which, for one m at least of an interval for mu, abs(T) is at most its half width;
        either fails with a part of ``miss``. There N below 0 counts as 0, and Q(m) as the nearest
        number in [0, N m (1 - m)], which only adds such v.
        """
        high, low = sums[0] + sums[1] / 2, sums[2] + sums[1] / 2
        band = self.mean_interval(high, low, miss * _OF_MEAN, HIGH_OF_THREE, HIGH_OF_THREE[::-1])
        if miss <= 0:
            return Interval(np.zeros(high.shape), np.full(high.shape, 0.25))
        edges, steps, widths = _variance_widths(self, miss * (1 - _OF_MEAN))
        flat = [one.reshape(-1, 1) for one in (sums[0], sums[1], sums.sum(axis=0), *band)]
        ends = np.empty((2, high.size))
        for part in blocks(high.size, _TOGETHER):
            a, b, total, lowest, highest = (one[part] for one in flat)
            ends[:, part] = _accepted(a, b, total, lowest, highest, edges, steps, widths)
        return Interval(*ends.reshape(2, *high.shape))


def variances(sums: NDArray[np.float64], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the estimates of variances that are in all of `LinearError.variance_interval`."""
    a, b, c = sums
    n, most = np.maximum(sums.sum(axis=0), 0.0), means * (1 - means)
    square = (1 - means) ** 2 * a - most * b + means**2 * c
    return np.asarray(np.clip(square, 0.0, n * most) / np.where(n > 0, n, 1.0))


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


def _accepted(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    total: NDArray[np.float64],
    lowest: NDArray[np.float64],
    highest: NDArray[np.float64],
    edges: NDArray[np.float64],
    steps: NDArray[np.float64],
    widths: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of the variances that are not excluded, cell by cell of means and variances.

    Sums and the ends of intervals for means are columns, ``edges`` are of cells of means, and
    ``steps`` of cells of variances.
    """
    first, last = np.maximum(edges[:-1], lowest), np.minimum(edges[1:], highest)
    n, outside = np.maximum(total, 0.0), first > last

    def squares(m: NDArray[np.float64]) -> NDArray[np.float64]:
        return total * m * m - (2 * a + b) * m + a

    nearest = np.clip((a + b / 2) / np.where(total == 0, 1.0, total), first, last)
    values = np.stack([squares(first), squares(last), squares(nearest)])
    most = np.stack([m * (1 - m) for m in (first, last, np.clip(0.5, first, last))])
    smallest = np.clip(values.min(axis=0), 0.0, n * most.min(axis=0))
    largest = np.clip(values.max(axis=0), 0.0, n * most.max(axis=0))
    low, high = np.full(first.shape, 1.0), np.zeros(first.shape)
    unit = np.where(n > 0, n, 1.0)
    for half, start, end in zip(widths, steps[:-1], steps[1:], strict=True):
        margin = half + _MARGIN * (n + half)
        least = np.where(n > 0, np.maximum((smallest - margin) / unit, start), start)
        most_of = np.where(n > 0, np.minimum((largest + margin) / unit, end), end)
        none = outside | (least > most_of) | (start > most.max(axis=0))
        low = np.where(none, low, np.minimum(low, least))
        high = np.where(none, high, np.maximum(high, most_of))
    return low.min(axis=1), high.max(axis=1)


@lru_cache(maxsize=1024)
def _half_width(error: LinearError, weights: tuple[float, ...], c: float, miss: float) -> float:
    """Return a half width in steps."""
    return float(_half_widths(error, np.array(weights), c, miss))


def _half_widths(
    error: LinearError,
    weights: NDArray[np.float64],
    c: float,
    miss: float,
    least: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return half widths in steps, for (..., k) weights, and all from ``least`` up to them."""
    weights = np.abs(weights)
    least = weights if least is None else np.abs(least)
    scale = _laplace_scale(error.noise)
    if scale is None:
        counts, rounding = np.ones(weights.shape, np.int64), c**2 * error.rounded / 4
        return error.noise.linear_half_width(weights, counts, miss, rounding=rounding, least=least)
    goal = miss * _rounding_factor(error, float((c / least.max(axis=-1)).max()), scale)
    falling = -np.sort(-weights, axis=-1)
    half = scale * _tail_inverse(falling, goal) + falling.sum(axis=-1)
    return np.asarray(half * (1 + _MARGIN))


@lru_cache(maxsize=64)
def _widths(
    error: LinearError, high: tuple[float, ...], low: tuple[float, ...], miss: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return edges of cells of means, and a half width of T, in users, for all means of each cell.

    Weights (1 - mu) high - mu low are 1 - mu and mu, or 1 and 1 - 2 mu, or 1 - mu, 1/2 - mu and mu:
    the noise is less peaked the further mu is from 1/2 (F. Proschan, *Peakedness of distributions
    of convex combinations*, Ann. Math. Statist. 36, 1965, for symmetric log-concave laws; the
    weights further out majorize the others weakly), and Chernoff's bound is larger, by convexity.
    The furthest mean of a cell has the largest half width.
    """
    cells = _COARSE if _laplace_scale(error.noise) is None else _CELLS
    edges = np.linspace(0, 0.5, cells + 1)[:, np.newaxis]
    weights = np.abs((1 - edges) * np.array(high) - edges * np.array(low))
    half = _half_widths(error, weights[:-1], 1.0, miss, np.minimum(weights[:-1], weights[1:]))
    half, mu = half / error.precision, edges[:, 0]
    return np.concatenate((mu, 1 - mu[-2::-1])), np.concatenate((half, half[::-1]))


@lru_cache(maxsize=64)
def _variance_widths(
    error: LinearError, miss: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return edges of cells of means and of variances, and half widths of T, in users.

    The latter, (variances, means), are those of the largest absolute weights of T in a cell: more
    noise of a symmetric unimodal law is less peaked. Those of 1 - m are those of m, reversed.
    """
    edges, steps = np.linspace(0, 0.5, _MEANS + 1), np.linspace(0, 0.25, _VARIANCES + 1)
    m, v = (np.stack((ends[:-1], ends[1:])) for ends in (edges, steps))
    m, v = m[:, np.newaxis, np.newaxis, :], v[np.newaxis, :, :, np.newaxis]
    # each is monotone in m and in v: extreme in the corners of a cell
    corners = np.stack(np.broadcast_arrays((1 - m) ** 2 - v, m * (1 - m) + v, m**2 - v), axis=-1)
    size, same = np.abs(corners), np.abs(np.sign(corners).sum(axis=(0, 1))) == 4
    least = np.where(same, size.min(axis=(0, 1)), 0.0)
    half = _half_widths(error, size.max(axis=(0, 1)), 1.0, miss, least) / error.precision
    mirrored = np.concatenate((half, half[:, ::-1]), axis=1)
    return np.concatenate((edges, 1 - edges[-2::-1])), steps, mirrored


def _laplace_scale(noise: Divisible) -> float | None:
    """Return the scale of discrete Laplace noise, None for others."""
    whole = isinstance(noise, PolyaDifference) and noise.shape == 1
    return float(1 / noise.rate) if whole else None


def _rounding_factor(error: LinearError, ratio: float, scale: float) -> float:
    """Return the factor by which rounding makes misses of Laplace noise rarer to be allowed.

    The survival function S of weighted noises is log-concave, and the slope of -log S at most h = 1
    / (a scale) for the largest weight a: P[T > t] <= S(t) E exp(h R) with the error R of rounding,
    and by Hoeffding's lemma the latter is at most exp((c / a / scale)^2 users / 8). The ``ratio``
    bounds c / a.
    """
    return math.exp(-error.rounded * (ratio / scale) ** 2 / 8)


def _tail_inverse(weights: ArrayLike, miss: float) -> NDArray[np.float64]:
    """Return t with P[abs(T) > t] <= miss for T a sum of Laplace variables of scale 1.

    Their ``weights`` (..., k), two or three, are at least 0 and fall. The probability is a divided
    difference of b^(k - 1) exp(-t / sqrt(b)) at their squares; for two, (a^2 exp(-t/a) - b^2
    exp(-t/b)) / (a^2 - b^2). Of three that are nearly equal, the largest is enlarged first.

    Discrete Laplace variables are floor(E/r) - floor(F/r) of exponential ones, where E/r - F/r has
    scale 1/r: within one step.
    """
    a, b, *rest = np.moveaxis(np.asarray(weights, dtype=np.float64), -1, 0)
    for c in rest:
        a = np.maximum(a, _APART * c)

    def difference(t: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
        """Return exp(t / x) (x^2 exp(-t/x) - y^2 exp(-t/y)) / (x^2 - y^2) - 1, x >= y."""
        far = t * (x - y) / (x * y)
        # without cancellation where the two are close
        ratio = np.where(far > 0, -np.expm1(-far) / far, 1.0)
        return np.where(y > 0, y * t * ratio / (x * (x + y)), 0.0)

    low, high = np.zeros(a.shape), a * ((2 + len(rest)) * math.log(1 / miss))
    with np.errstate(under="ignore", divide="ignore", invalid="ignore"):
        for _ in range(60):
            t = (low + high) / 2
            tail = np.exp(-t / a) * (1 + difference(t, a, b))
            for c in rest:
                near = np.exp(-t / a) * (a**2 + b**2 * (1 + difference(t, a, b)))
                further = np.exp(-t / b) * (b**2 + c**2 * (1 + difference(t, b, c)))
                tail = (near - np.where(b > 0, further, 0.0)) / (a**2 - c**2)
            misses = tail > miss
            low, high = np.where(misses, t, low), np.where(misses, high, t)
    return np.asarray(high)
