"""Binomial probabilities in doubles, at points and over ranges."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ikos.numeric.underflow import may_underflow

Floats = NDArray[np.float64]
_SERIES = 16.0  # from here on Stirling's series is exact to doubles


def _stirling(x: Floats) -> Floats:
    """Return ln Gamma(x + 1) - (x ln x - x) for x >= 0."""
    large = np.maximum(x, _SERIES)
    inverse = 1 / (large * large)
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / large
    small = np.minimum(x, _SERIES)
    return np.where(
        x < _SERIES,
        scipy.special.gammaln(small + 1) - scipy.special.xlogy(small, small) + small,
        0.5 * np.log(2 * math.pi * large) + series,
    )


def _deviance(x: Floats, mean: Floats) -> Floats:
    """Return x ln(x / mean) - (x - mean), without cancellation near the mean."""
    mean = np.maximum(mean, 1e-300)
    off = (x - mean) / mean
    return mean * (scipy.special.xlog1py(1 + off, off) - off)


@may_underflow()
def log_pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> Floats:
    """Return ln P[Bin(n, p) = k] for 0 < p < 1 and integers 0 <= k <= n.

    As C. Loader, *Fast and accurate computation of binomial probabilities*, 2000: by deviances,
    where differences of ln x! would lose all digits at large n.
    """
    k, n, p = (np.asarray(value, np.float64) for value in (k, n, p))
    coefficient = _stirling(n) - _stirling(k) - _stirling(n - k)
    return np.asarray(coefficient - _deviance(k, n * p) - _deviance(n - k, n * (1 - p)))


@may_underflow()
def log_negative_pmf(k: ArrayLike, shape: ArrayLike, rate: ArrayLike) -> Floats:
    """Return ln P[X = k] for a Polya variable X of this shape > 0, with alpha = exp(-rate)."""
    k, shape, rate = (np.asarray(value, np.float64) for value in (k, shape, rate))
    n = k + shape
    coefficient = np.log(shape / n) + _stirling(n) - _stirling(k) - _stirling(shape)
    near = _deviance(k, n * np.exp(-rate)) + _deviance(shape, -n * np.expm1(-rate))
    return np.asarray(coefficient - near)


@may_underflow()
def at_most(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> Floats:
    """Return P[Bin(n, p) <= k] for integers 0 <= k <= n, by scipy's beta functions."""
    k, n, p = (np.asarray(value, np.float64) for value in (k, n, p))
    return np.where(k < n, scipy.special.betaincc(k + 1, np.maximum(n - k, 1.0), p), 1.0)


@may_underflow()
def above(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> Floats:
    """Return P[Bin(n, p) > k] for integers 0 <= k <= n, by scipy's beta functions."""
    k, n, p = (np.asarray(value, np.float64) for value in (k, n, p))
    return np.where(k < n, scipy.special.betainc(k + 1, np.maximum(n - k, 1.0), p), 0.0)


def reach(variance: float, wanted: float) -> float:
    """Return x with P[X > mean + x] <= e^-wanted, as below, for X binomial (Bernstein)."""
    return wanted / 3 + math.sqrt(wanted * wanted / 9 + 2 * variance * wanted)


@np.errstate(under="ignore")
def pmf_around(n: Floats, p: float, odds: float, down: int, up: int) -> Floats:
    """Return P[Bin(n, p) = m - down], ..., P[Bin(n, p) = m + up], normalized, for m = round(n p).

    In a column for each entry of n; ``odds`` are p / (1 - p).
    """
    middle = np.round(n * p)
    pmf = np.ones((down + 1 + up, n.size))
    k = middle + np.arange(up, dtype=np.float64)[:, np.newaxis]
    np.cumprod(np.maximum(n - k, 0) / (k + 1) * odds, axis=0, out=pmf[down + 1 :])
    k = middle - np.arange(down, dtype=np.float64)[:, np.newaxis]
    np.cumprod(np.maximum(k, 0) / ((n - k + 1) * odds), axis=0, out=pmf[:down][::-1])
    pmf /= pmf.sum(axis=0)
    return pmf


@dataclass(frozen=True)
class BinomialMasses:
    """The relevant probabilities, of ``first``, ``first`` + 1, ..., normalized."""

    first: int
    pmf: Floats
    complete: bool

    def reversed(self, n: int) -> BinomialMasses:
        """Return the window of n minus the variable."""
        return BinomialMasses(n - self.first - self.pmf.size + 1, self.pmf[::-1], self.complete)


def binomial_range(n: int, p: float, mass: float) -> tuple[int, int]:
    """Return the ends of a range outside of which Bin(n, p) is with at most e^-mass."""
    beyond = reach(n * p * (1 - p), mass + 1)
    return max(0, math.floor(n * p - beyond) - 1), min(n, math.ceil(n * p + beyond) + 1)


def binomial_window(n: int, p: float, odds: float, mass: float) -> BinomialMasses:
    """Return Bin(n, p) without e^-mass of it; odds = p / (1 - p)."""
    low, high = binomial_range(n, p, mass)
    middle = round(n * p)
    pmf = pmf_around(np.array([float(n)]), p, odds, middle - low, high - middle)[:, 0]
    return BinomialMasses(low, pmf, low == 0 and high == n)
