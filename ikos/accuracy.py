"""How far a private sum is from the truth: the law of its noise, tails, intervals.

Everything here is in units of the encoding, where a user's value is an integer in {0..p}, and
concerns accuracy alone; privacy never rests on it. Tail bounds are upper bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Noise",
    "NoiseLaw",
    "default_modulus",
    "default_precision",
    "smallest_modulus",
    "standard_error",
]

ROUNDING_SHARE = 0.01
WRAP_TARGET = 2.0**-40
WRAP_SHARE = 1e-3
TINY = 1e-300
_GRID = 1 << 14
_TRUSTED = 1e-9
_LARGEST_QUANTILE = 1e15  # above it the law is not computed in doubles


class Noise(Protocol):
    """The law of a sum's noise, as far as accuracy depends on it; `NoiseLaw` is one."""

    @property
    def variance(self) -> float:
        """Variance."""

    def reach(self, distance: float) -> float:
        """Bound P[the noise leaves a window of which both ends are ``distance`` away]."""

    def half_width(self, miss: float, users: int) -> float:
        """Return t with P[abs(noise + rounding error of ``users``) > t] <= miss."""


@dataclass(frozen=True)
class NoiseLaw:
    """The difference of two independent Polya(shape, exp(-rate)) variables.

    Parameters
    ----------
    rate : Fraction
        Inverse scale, epsilon / p.
    shape : Fraction
        Users present over users whose noise makes one discrete Laplace variable, at least 1. With
        shape 1 the law is discrete Laplace.
    """

    rate: Fraction
    shape: Fraction

    @cached_property
    def _s(self) -> float:
        return float(self.rate)

    @property
    def variance(self) -> float:
        """Exact variance, 2 shape alpha / (1 - alpha)^2 with alpha = exp(-rate)."""
        return float(self.shape) / (2 * math.sinh(self._s / 2) ** 2) if self._s < 700 else 0.0

    def reach(self, distance: float) -> float:
        """Bound P[the noise leaves a window of which both ends are ``distance`` away].

        Discrete Laplace noise (BBGN20, Section 5.3) leaves a window that begins ``distance``
        below the smallest sum and ends ``distance`` above the largest with probability at most
        alpha^distance. For larger shapes it is twice the Chernoff bound of one side.
        """
        if self.shape == 1:
            return min(1.0, math.exp(-self._s * distance))
        exponent = self._smallest(lambda theta: self._log_mgf(theta) - theta * distance)
        return min(1.0, 2 * math.exp(min(0.0, exponent)))

    def _log_mgf(self, theta: float) -> float:
        """Return ln E exp(theta noise), for 0 < theta < rate."""
        s = self._s
        log_mgf = 2 * math.log(-math.expm1(-s))
        log_mgf -= math.log(-math.expm1(theta - s)) + math.log(-math.expm1(-theta - s))
        return float(self.shape) * log_mgf

    def _smallest(self, bound: Callable[[float], float]) -> float:
        """Return the smallest value found of a bound that holds for every theta in (0, rate)."""
        from scipy import optimize  # costs a second to import, which a release need not wait for

        s = self._s
        best = optimize.minimize_scalar(
            bound, bounds=(0.0, s * (1 - 1e-12)), method="bounded", options={"xatol": s * 1e-9}
        )
        return float(best.fun)

    @cached_property
    def _grid(self) -> tuple[int, NDArray[Any], NDArray[Any]]:
        """Return a cell width w and the law and survival of floor(Polya / w), 0.. ."""
        from scipy import stats

        law = stats.nbinom(float(self.shape), -math.expm1(-self._s))
        last = int(law.isf(1e-17)) + 2
        width = -(-last // _GRID)
        edges = np.arange(0, last + 2 * width, width)
        survival = law.sf(edges - 1)
        return width, survival[:-1] - survival[1:], survival

    def _survival(self, cells: int) -> float:
        """Return P[D > cells] for the difference D of two such floors, cells >= 0."""
        _, pmf, survival = self._grid
        above = survival[cells + 1 :][: pmf.size]
        return float(np.dot(pmf[: above.size], above)) + 1e-15  # and what the grid leaves out

    def half_width(self, miss: float, users: int) -> float:
        """Return t with P[abs(noise + rounding error) > t] <= miss.

        Parameters
        ----------
        miss : float
            Probability in (0, 1).
        users : int
            How many users rounded at random; their rounding errors are independent, centred and
            each within an interval of length 1. 0 where nothing was rounded.

        Notes
        -----
        By Hoeffding's lemma the rounding error R has E exp(h R) <= exp(h^2 users / 8). Two bounds,
        of which the smaller is returned. Where noise dominates: its survival function S is
        log-concave (shape >= 1), so S(t - R) is at most S(t) exp(h R) with h the slope of -log S at
        t; hence P[noise + R > t] <= S(t) exp(h^2 users / 8), up to one step of the lattice. Where
        rounding dominates: Chernoff's bound for the sum of both.
        """
        both = self._smallest(
            lambda h: (math.log(2 / miss) + h * h * users / 8 + self._log_mgf(h)) / h
        )
        return min(both, self._tilted(miss, users))

    def _tilted(self, miss: float, users: int) -> float:
        """Return the first of the two bounds of `half_width`; infinite where it says nothing.

        For shape 1 the survival function is geometric and the bound closed. For larger shapes it is
        computed on a lattice of cells of width w: A - B is at most w (floor(A/w) - floor(B/w)) + w,
        and floors of log-concave variables are log-concave.
        """
        s = self._s
        if self.shape == 1:
            return (math.log(2 / ((1 + math.exp(-s)) * miss)) + s * s * users / 8) / s
        if (float(self.shape) + 50) / s > _LARGEST_QUANTILE:
            return math.inf
        width, _, survival = self._grid

        def enough(cells: int) -> bool:
            here = self._survival(cells)
            slope = math.log(self._survival(cells - 1) / here) / width
            return math.log(2 * here) + slope * slope * users / 8 <= math.log(miss)

        low, high = 0, 1
        while True:
            if high > survival.size or self._survival(high) < _TRUSTED:
                return math.inf  # from here on the slope would be that of rounding errors
            if enough(high):
                break
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return float((high + 1 + (width > 1)) * width)


def default_precision(epsilon: Fraction, parties: int) -> int:
    """Return the smallest precision that keeps the rounding error's share of the noise small.

    Rounding n users adds a variance of at most n/4 in encoding units, the noise one of
    2 alpha / (1 - alpha)^2 = 1 / (cosh s - 1) for each ``parties`` of them, s = epsilon / p. The
    smallest p with rounding at most 1 % of noise is epsilon / arccosh(1 + 0.04 / parties), about
    3.5 epsilon sqrt(parties).
    """
    # arccosh(1 + x) as 2 arcsinh(sqrt(x / 2)), which loses no digits at small x
    rate = 2 * math.asinh(math.sqrt(4 * ROUNDING_SHARE / parties / 2))
    return max(1, math.ceil(float(epsilon) / rate))


def default_modulus(users: int, precision: int, law: Noise) -> int:
    """Return the smallest power of two at which wrapping around hardly ever happens, or matters.

    The probability of a wrap-around is at most 2^-40, and what it adds to the mean squared error,
    at most q^2 times that, at most a thousandth of the noise's variance. A wrap-around makes a
    wrong result and costs no privacy.
    """
    q = 1 << (users * precision).bit_length()

    def wraps(q: int) -> bool:
        chance = law.reach((q - users * precision) / 2)
        if chance > WRAP_TARGET:
            return True
        # in logarithms: q may exceed what doubles hold
        spoilt = chance and 2 * math.log(q) + math.log(chance)
        return bool(chance and spoilt > math.log(WRAP_SHARE * max(law.variance, TINY)))

    while wraps(q):
        q *= 2
    return q


def smallest_modulus(users: int, precision: int, law: NoiseLaw, failure: float) -> int:
    """Return the smallest order at which sums wrap around with probability at most ``failure``."""

    def enough(q: int) -> bool:
        return law.reach((q - users * precision) / 2) <= failure

    low = users * precision
    step = 1
    while not enough(low + step):
        low, step = low + step, 2 * step
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def standard_error(
    law: Noise, *, users: int, precision: int, modulus: int | None, rounded: bool = True
) -> float:
    """Return a bound on the root mean squared error of a sum, in units of one user's range.

    Noise, randomized rounding (at most 1/4 of a squared step for each user), and wrap-around: an
    estimate that wrapped is wrong by at most q steps. A ``modulus`` of None is without limit.
    """
    wrap = 0.0
    if modulus is not None:
        chance = law.reach(min(modulus - users * precision, 1 << 1000) / 2)
        exponent = 2 * math.log(modulus) + math.log(chance) if chance else -math.inf
        wrap = math.exp(exponent) if exponent < 700 else math.inf
    return 1.0 / precision * math.sqrt(law.variance + (users / 4 if rounded else 0.0) + wrap)
