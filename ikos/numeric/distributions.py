"""The error of a private sum: the distribution of its noise, tails, intervals.

All quantities are in units of the encoding, where a user's value is an integer in {0..p}. They
concern accuracy alone; privacy never rests on them. Tail bounds are upper bounds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import gmpy2
import numpy as np
import scipy
from gmpy2 import mpfr
from numpy.typing import NDArray

from ikos._validation import round_down, round_up
from ikos.numeric.binomial import log_negative_pmf
from ikos.numeric.search import first, least_point
from ikos.numeric.underflow import may_underflow

WRAP_TARGET = 2.0**-40
_GRID = 1 << 14
_WIDEST = 1e300  # the peak of a wider law is lower, and 0 in doubles at infinity
_TRUSTED = 1e-9
_LEFT_OUT = 1e-17  # probability beyond a grid
_STEPS = 64  # values of h that are tried
_LARGEST_QUANTILE = 1e15  # above it, nothing is computed in doubles
_FAR = 1 << 1000  # a distance within doubles that stands for any larger one


def chernoff(log_mgf: Callable[[float], float], miss: float, largest: float) -> float:
    """Return t with P[abs(error) > t] <= miss, from a bound on the moment generating function.

    ``log_mgf`` bounds ln E exp(h error) and ln E exp(-h error), for 0 < h < ``largest``. Every h
    gives a bound on t; the smallest is found on a grid and refined.
    """
    wanted = math.log(2 / miss)

    def bound(log_h: float) -> float:
        h = math.exp(log_h)
        try:
            return (log_mgf(h) + wanted) / h if h < largest else math.inf
        except OverflowError:
            return math.inf

    top = math.log(largest) if largest < math.inf else 60.0
    near, best = top, math.inf
    for step in range(1, 800):
        value = bound(top - 0.25 * step)
        if value > best:  # the bounds have a single minimum, as log_mgf is convex
            break
        if value < math.inf:
            near, best = top - 0.25 * step, value
    ends = (near - 0.25, min(near + 0.25, top))
    return min(best, bound(least_point(bound, *ends)))


class Distribution(ABC):
    """The symmetric distribution of a sum's noise, as needed for its accuracy."""

    rate: Fraction  # theta of `log_mgf` is below it

    integers: bool = True
    """Whether the noise is an integer; else its mean of 0 is halfway between two."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance."""

    @abstractmethod
    def _log_mgf(self, theta: float) -> mpfr:
        """Return `log_mgf`, in the context in force."""

    def log_mgf(self, theta: float) -> float:
        """Return ln E exp(theta noise) for 0 < theta < ``rate``."""
        with gmpy2.context():
            return float(self._log_mgf(theta))

    @property
    def largest(self) -> float:
        """A double below the rate by a relative 1e-12: differences from the rate lose 40 bits."""
        return round_down(self.rate) * (1 - 1e-12)

    def log_tail_bound(self, distance: float | Fraction) -> float:
        """Return ln of twice Chernoff's bound on P[noise >= distance], rounded up; at most 0."""
        t = Fraction(min(distance, _FAR))
        theta = self._best_theta(t)  # every theta gives a bound
        fallen = Fraction(theta) * t
        with gmpy2.context(precision=300):
            # 2^-100 far exceeds the errors
            grown = self._log_mgf(theta) * (1 + mpfr(2) ** -100) + mpfr(2) ** -100
            bound = gmpy2.const_log2() + grown
            bound -= mpfr(fallen.numerator) / fallen.denominator * (1 - mpfr(2) ** -100)
        with gmpy2.context(gmpy2.ieee(64), round=gmpy2.RoundUp):
            return min(0.0, float(+bound))

    def _best_theta(self, t: Fraction) -> float:
        """Return a theta at which Chernoff's bound is about the smallest."""
        near = float(t)
        return least_point(lambda theta: self.log_mgf(theta) - theta * near, 0.0, self.largest)

    def tail_bound(self, distance: float | Fraction) -> float:
        """Bound P[noise <= -distance or noise > distance], for any real distance; rounded up.

        This is the probability of leaving the analyzer's window, which contains one of its ends.
        """
        with gmpy2.context(gmpy2.ieee(64), round=gmpy2.RoundUp):
            return float(gmpy2.exp(self.log_tail_bound(distance)))

    def half_width(self, miss: float, users: int) -> float:
        """Return t with P[abs(noise + rounding error) > t] <= miss, by Chernoff's bound.

        The rounding errors of ``users``, 0 if nothing was rounded, are centred and each within an
        interval of length 1: E exp(h sum) <= exp(h^2 users / 8), by Hoeffding's lemma.
        """
        return chernoff(lambda h: self.log_mgf(h) + h * h * users / 8, miss, self.largest)


class Divisible(Distribution):
    """An infinitely divisible law: sums of any number of variables are of the same kind."""

    @abstractmethod
    def log_mgfs(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return `log_mgf` for many theta, in doubles."""

    @abstractmethod
    def peaks(self, theta: NDArray[np.float64], count: NDArray[np.int64]) -> NDArray[np.float64]:
        """Bound the probabilities of all values of a sum, tilted by exp(theta sum).

        It is the sum of ``count`` independent variables of this law.
        """

    @may_underflow()
    def linear_half_width(
        self,
        weights: NDArray[np.float64],
        counts: NDArray[np.int64],
        miss: float,
        *,
        rounding: float = 0.0,
        least: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Return t with P[abs(T) > t] <= miss for T = sum_j w_j S_j + R, for (..., k) weights.

        S_j is the sum of ``counts[..., j]`` independent variables of this law, and R a centred
        error with E exp(h R) <= exp(h^2 rounding / 2). The bound is Chernoff's times E[exp(-h (T -
        t)); T >= t] of the tilted T: all but S_j given, its values are w_j apart, and none has a
        probability above the peak of S_j, for any j. The latter is taken at weights ``least``, if
        they are given: then t holds for all weights in between, if larger ones have larger moments.
        """
        w, low = np.abs(weights), np.abs(weights if least is None else least)
        wanted = math.log(2 / miss)
        shares = w**2 * counts
        variance = self.variance * shares.sum(axis=-1, keepdims=True) + rounding + 1e-300
        h = np.sqrt(2 * wanted / variance) * np.exp(np.linspace(-2.5, 0.7, _STEPS))
        h = np.minimum(h, self.largest / w.max(axis=-1, keepdims=True) * (1 - 1e-3))
        log = h * h * (rounding / 2) + wanted
        for j in range(w.shape[-1]):
            log += counts[..., j, np.newaxis] * self.log_mgfs(w[..., j, np.newaxis] * h)
        widest = shares.argmax(axis=-1)[..., np.newaxis]
        apart = np.take_along_axis(low, widest, -1) * h
        peak = self.peaks(apart, np.take_along_axis(counts, widest, -1))
        lost = np.minimum(np.log(peak) - np.log(-np.expm1(-apart)), 0.0)
        return np.asarray(((log + lost) / h).min(axis=-1) * (1 + _TRUSTED))


@dataclass(frozen=True)
class PolyaDifference(Divisible):
    """The difference of two independent Polya(shape, exp(-rate)) variables.

    ``rate`` is the inverse scale, epsilon / p. ``shape``, at least 1, is the number of users who
    take part over the number whose noise makes one discrete Laplace variable.
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

    def _log_mgf(self, theta: float) -> mpfr:
        """Return ln E exp(theta noise) = -shape ln(1 - (sinh(theta / 2) / sinh(rate / 2))^2)."""
        rate = mpfr(self.rate.numerator) / self.rate.denominator
        part = gmpy2.sinh(mpfr(theta) / 2) / gmpy2.sinh(rate / 2)
        return -self.shape.numerator * gmpy2.log1p(-part * part) / self.shape.denominator

    def log_mgfs(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the same in doubles."""
        # the ratio of sinh(theta / 2) and sinh(rate / 2), which may exceed all doubles
        part = np.exp((theta - self._s) / 2) * np.expm1(-theta) / math.expm1(-self._s)
        return -float(self.shape) * np.log1p(-part * part)

    def peaks(self, theta: NDArray[np.float64], count: NDArray[np.int64]) -> NDArray[np.float64]:
        """Bound the probabilities of all values by that of the mode of the wider variable."""
        rate, shape = self._s - theta, float(self.shape) * count
        mode = np.floor((shape - 1) / np.expm1(np.minimum(rate, 700.0)))
        return np.asarray(np.exp(log_negative_pmf(mode, shape, rate)) * (1 + _TRUSTED))

    def log_tail_bound(self, distance: float | Fraction) -> float:
        """Return ln of the bound of `tail_bound`, rounded up; at most 0.

        Discrete Laplace noise is outside (-t, t] with probability at most alpha^t at multiples t of
        1/2 (BBGN20, Section 5.3).
        """
        if self.shape == 1:
            halves = max(0, math.floor(2 * Fraction(min(distance, _FAR))))
            return round_up(-self.rate * halves / 2)
        return super().log_tail_bound(distance)

    def half_width(self, miss: float, users: int) -> float:
        """Return the smaller of two bounds: Chernoff's, and `_tilted` where noise dominates."""
        return min(super().half_width(miss, users), self._tilted(miss, users))

    def _tilted(self, miss: float, users: int) -> float:
        """Return a half width from the noise's survival function, or infinity if it gives none.

        The survival function S is log-concave, so P[noise + R > t] <= S(t) exp(h^2 users / 8) with
        h the slope of -log S at t, up to one step of the lattice. For shape 1, S is geometric. For
        larger shapes it is computed on a lattice of cells of width w: A - B is at most w
        (floor(A/w) - floor(B/w)) + w, and floors of log-concave variables are log-concave.
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
                return math.inf  # from here on, the slope would only reflect rounding errors
            if enough(high):
                break
            low, high = high, 2 * high
        high = first(enough, low, high)
        return float((high + 1 + (width > 1)) * width)

    @cached_property
    @may_underflow()
    def _grid(self) -> tuple[int, NDArray[Any], NDArray[Any]]:
        """Return a cell width w, the probabilities of floor(Polya / w), and its survival."""
        shape, beta = float(self.shape), -math.expm1(-self._s)

        def beyond(k: int) -> bool:
            return bool(scipy.special.betaincc(shape, k + 1, beta) <= _LEFT_OUT)

        high = 1
        while not beyond(high):
            high *= 2
        last = first(beyond, -1, high) + 2
        width = -(-last // _GRID)
        edges = np.arange(width, last + 2 * width, width)
        survival = np.concatenate(([1.0], scipy.special.betaincc(shape, edges, beta)))
        return width, survival[:-1] - survival[1:], survival

    def _survival(self, cells: int) -> float:
        """Return P[D > cells] for the difference D of two such floors, cells >= 0."""
        _, pmf, survival = self._grid
        above = survival[cells + 1 :][: pmf.size]
        return float(np.dot(pmf[: above.size], above)) + 1e-15  # the grid leaves out less


@dataclass(frozen=True)
class SkellamDistribution(Divisible):
    """The difference of two independent Poisson variables; ``spread`` is its variance."""

    spread: Fraction

    @property
    def variance(self) -> float:
        """Variance."""
        return float(self.spread)

    largest = math.inf

    def _log_mgf(self, theta: float) -> mpfr:
        """Return ln E exp(theta noise) = variance (cosh theta - 1)."""
        half = gmpy2.sinh(mpfr(theta) / 2)
        return 2 * half * half * self.spread.numerator / self.spread.denominator

    def _best_theta(self, t: Fraction) -> float:
        return math.asinh(max(t, Fraction(0)) / self.spread)

    def log_mgfs(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the same in doubles."""
        return 2 * self.variance * np.sinh(theta / 2) ** 2

    def peaks(self, theta: NDArray[np.float64], count: NDArray[np.int64]) -> NDArray[np.float64]:
        """Bound the probabilities of all values by that of 0 without a tilt, of equal variance."""
        spread = np.minimum(self.variance * count * np.cosh(theta), _WIDEST)
        return np.asarray(scipy.special.i0e(spread) * (1 + _TRUSTED))

    @may_underflow()
    def half_width(self, miss: float, users: int) -> float:
        """Return the half width by Chernoff's bound times the factor that the bound loses.

        With the tilted noise Y it is that times E[exp(-h (Y - t)); Y >= t], and no value of Y has a
        probability above that of 0 under Skellam noise of variance v cosh h.
        """

        def log_mgf(h: float) -> float:
            most = scipy.special.i0e(min(self.variance * math.cosh(h), _WIDEST)) / -math.expm1(-h)
            return self.log_mgf(h) + h * h * users / 8 + min(0.0, math.log(most))

        return chernoff(log_mgf, miss, 700.0)


def default_precision(epsilon: Fraction, parties: int) -> int:
    """Return the smallest precision at which rounding adds little to the noise.

    Rounding the values of n users adds a variance of at most n/4 in encoding units, and the noise
    adds 1 / (cosh s - 1) for every ``parties`` users, with s = epsilon / p. The smallest p at which
    rounding adds at most 1 % of the noise is epsilon / arccosh(1 + 0.04 / parties).
    """
    # arccosh(1 + x) as 2 arcsinh(sqrt(x / 2)), which loses no digits at small x
    rate = 2 * math.asinh(math.sqrt(0.04 / parties / 2))
    return max(1, math.ceil(float(epsilon) / rate))


def default_modulus(users: int, precision: int, distribution: Distribution) -> int:
    """Return the smallest power of two at which a sum wraps around with probability <= 2^-40.

    Wrap-around adds to the mean squared error at most q^2 times its probability; this, too, is kept
    to at most a thousandth of the noise's variance. It makes a result wrong and costs no privacy.
    """
    q = 1 << (users * precision).bit_length()
    most = math.log(1e-3 * max(distribution.variance, 1e-300))

    def wraps(q: int) -> bool:  # in logarithms: q may exceed the largest double
        chance = distribution.log_tail_bound(Fraction(q - users * precision, 2))
        return chance > math.log(WRAP_TARGET) or 2 * math.log(q) + chance > most

    while wraps(q):
        q *= 2
    return q
