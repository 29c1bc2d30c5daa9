"""Binomial probabilities in doubles, at points and over ranges."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincc, gammaln, xlog1py, xlogy

Floats = NDArray[np.float64]
_SERIES = 16.0  # from here on Stirling's series is exact to doubles


def _stirling(x: Floats) -> Floats:
    """Return ln x! - (x ln x - x) for integers x >= 0."""
    large = np.maximum(x, _SERIES)
    inverse = 1 / (large * large)
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / large
    small = np.minimum(x, _SERIES)
    return np.where(
        x < _SERIES,
        gammaln(small + 1) - xlogy(small, small) + small,
        0.5 * np.log(2 * math.pi * large) + series,
    )


def _deviance(x: Floats, mean: Floats) -> Floats:
    """Return x ln(x / mean) - (x - mean), without cancellation near the mean."""
    mean = np.maximum(mean, 1e-300)
    off = (x - mean) / mean
    return mean * (xlog1py(1 + off, off) - off)


def log_pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> Floats:
    """Return ln P[Bin(n, p) = k] for 0 < p < 1 and integers 0 <= k <= n.

    As C. Loader, *Fast and accurate computation of binomial probabilities*, 2000: by deviances,
    where differences of ln x! would lose all digits at large n.
    """
    k, n, p = (np.asarray(given, np.float64) for given in (k, n, p))
    coefficient = _stirling(n) - _stirling(k) - _stirling(n - k)
    return np.asarray(coefficient - _deviance(k, n * p) - _deviance(n - k, n * (1 - p)))


def at_most(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> Floats:
    """Return P[Bin(n, p) <= k] for integers 0 <= k <= n, by scipy's beta functions."""
    k, n, p = (np.asarray(given, np.float64) for given in (k, n, p))
    return np.where(k < n, betaincc(k + 1, np.maximum(n - k, 1.0), p), 1.0)


def above(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> Floats:
    """Return P[Bin(n, p) > k] for integers 0 <= k <= n, by scipy's beta functions."""
    k, n, p = (np.asarray(given, np.float64) for given in (k, n, p))
    return np.where(k < n, betainc(k + 1, np.maximum(n - k, 1.0), p), 0.0)


def pmf_within(n: int, p: float, odds: float, low: int, high: int) -> Floats:
    """Return P[Bin(n, p) = k] for k = low, ..., high, normalized; ``odds`` are p / (1 - p)."""
    mode = min(max(math.floor((n + 1) * p), low), high)
    k = np.arange(mode, high, dtype=np.float64)
    above = np.cumprod((n - k) / (k + 1) * odds)
    k = np.arange(mode, low, -1, dtype=np.float64)
    below = np.cumprod(k / ((n - k + 1) * odds))
    pmf = np.concatenate((below[::-1], [1.0], above))
    return np.asarray(pmf / pmf.sum())
