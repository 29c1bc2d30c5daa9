"""The error of an estimate, in the data's units: mean squared error and half widths.

Half widths are bounds at every sample size, by Chernoff's method, without normal approximation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import scipy

from ikos._validation import floating
from ikos.numeric.distributions import Distribution, chernoff

__all__ = ["ErrorBound", "SumError"]


class ErrorBound(Protocol):
    """Bounds on the error of one estimated number."""

    @property
    def mean_square(self) -> float:
        """Bound on the mean squared error."""

    def half_width(self, miss: float) -> float:
        """Return t such that the error exceeds t in absolute value with probability <= miss."""


@dataclass(frozen=True)
class SumError:
    """Bounds on the error of an estimated sum, for all values of the users.

    ``mean_square`` bounds the mean squared Euclidean error of all coordinates; ``sampling`` is the
    part due to coordinates that users do not report. ``wrap_probability`` bounds the probability
    that a coordinate wraps around, so that the estimate is wrong. ``integers``: whether sums and
    errors are integers.
    """

    coordinate: ErrorBound
    mean_square: float
    sampling: float = 0.0
    integers: bool = False
    wrap_probability: float = 0.0

    @classmethod
    def number(cls, bound: ErrorBound) -> SumError:
        """Return the error of a sum of numbers."""
        return cls(bound, bound.mean_square)


def bennett(h: float, variance: float, largest: float) -> float:
    """Bound ln E exp(h sum) for independent centred terms, by Bennett's inequality."""
    x = h * largest
    # exp(x) - 1 - x <= x^2 / 2 / (1 - x/3) for x < 3, used where the difference loses digits
    above = x * x / (2 - 2 * x / 3) if x < 1e-5 else math.expm1(x) - x
    return variance * above / largest**2


@dataclass(frozen=True)
class Bounded:
    """A sum of independent centred terms, each at most ``largest``: Bennett's inequality."""

    mean_square: float
    largest: float

    def half_width(self, miss: float) -> float:
        """Return t such that the error exceeds t in absolute value with probability <= miss."""
        if self.mean_square == 0:
            return 0.0
        return chernoff(lambda h: bennett(h, self.mean_square, self.largest), miss, math.inf)


@dataclass(frozen=True)
class Flips:
    """The error of a count of ones among ``bits``, each of which is flipped with a probability.

    The count is debiased, which makes a flip count ``size``.
    """

    mean_square: float
    bits: int
    flip: float
    size: float

    def half_width(self, miss: float) -> float:
        """Return t such that the error exceeds t in absolute value with probability <= miss.

        It is Chernoff's bound times a factor that this loses: P[Y >= t] = exp(k(h) - h t) E[exp(-h
        (Z - t)); Z >= t] for k(h) = ln E exp(h Y) and the tilted error Z, whose values are 1 apart.
        None has a probability above e^-V I_0(V), with V the variance of Z: if a bit of Z has the
        variance v, its characteristic function at u has the square 1 - 2 v (1 - cos u) <= exp(-2 v
        (1 - cos u)), and the integral of exp(-V (1 - cos u)) over a period is 2 pi e^-V I_0(V).
        """

        def chernoff_and_factor(h: float) -> tuple[float, float]:
            """Return k(h), and ln of the factor, if all bits are 0; for -h if all are 1."""
            growth = self.flip * math.expm1(h)
            tilted = self.flip * math.exp(h) / (1 + growth)
            peak = scipy.special.i0e(self.bits * tilted * (1 - tilted))
            log_mgf = self.bits * (math.log1p(growth) - h * self.flip)
            return log_mgf, math.log(peak / -math.expm1(-abs(h)))

        def log_mgf(h: float) -> float:
            # With j ones among the bits, k and V are linear in j, and ln (e^-V I_0(V)) is convex in
            # V, as the logarithm of a Laplace transform: both bounds are largest at an end of j.
            ends = [chernoff_and_factor(h), chernoff_and_factor(-h)]
            return min(max(k for k, _ in ends), max(k + factor for k, factor in ends))

        return self.size * chernoff(log_mgf, miss, 700.0)


@dataclass(frozen=True)
class NoisySum:
    """The error of a noisy sum of values that may be rounded at random, perhaps modulo q.

    The ``noise`` of the sum is in steps, of which one user's range, ``width``, has ``precision``.
    It is also wrong, by any amount modulo q, if one of the other ``digits`` next to it wraps
    around, or with the probability ``failure``.
    """

    noise: Distribution
    precision: int
    users: int
    width: float = 1.0
    modulus: int | None = None
    rounded: bool = True
    digits: int = 1
    failure: float = 0.0

    @property
    def integers(self) -> bool:
        """Whether errors are integers. Then values are not rounded, and a step is 1."""
        return not self.rounded and self.width == self.precision and self.noise.integers

    @property
    def wrap_probability(self) -> float:
        """Bound on the probability of a wrap-around, or of another reason to be wrong."""
        return self.digits * self._wraps + self.failure

    @property
    def _wraps(self) -> float:
        if self.modulus is None:
            return 0.0
        return self.noise.tail_bound(self._room(self.modulus))

    def _room(self, modulus: int) -> Fraction:
        """Return the least noise, in steps, at which a sum may wrap around."""
        return Fraction(modulus - self.users * self.precision, 2)

    @property
    def mean_square(self) -> float:
        """Bound on the mean squared error from noise, rounding and wrap-around.

        Rounding adds at most 1/4 of a squared step per user, and an estimate that wrapped is off by
        at most q steps.
        """
        square = self.noise.variance + (self.users / 4 if self.rounded else 0.0)
        if self.modulus is not None:
            chance = self.noise.log_tail_bound(self._room(self.modulus))
            exponent = 2 * math.log(self.modulus) + chance
            square += math.exp(exponent) if exponent < 700 else math.inf
        error = self.width * (1.0 / self.precision * math.sqrt(square))
        if self.failure and self.modulus is not None:  # of masked vectors, below 2^62
            spoiled = math.sqrt((self.digits - 1) * self._wraps + self.failure)
            error = math.hypot(error, spoiled * self.width * self.modulus / self.precision)
        return error**2 if error < 1e150 else math.inf

    def half_width(self, miss: float) -> float:
        """Return t such that the error exceeds t in absolute value with probability <= miss.

        It is an integer if errors are. If a wrap-around alone is likelier than ``miss``, it is the
        largest possible error, as estimates lie in a window of q points around the possible sums.
        """
        width = math.inf
        if self.modulus is not None:
            span = Fraction(self.modulus + self.users * self.precision, 2 * self.precision)
            width = self.width * floating(span)
        remaining = miss - self.wrap_probability
        if remaining > 0:
            width = min(width, self.width * _reach(self, remaining) / self.precision)
        if self.integers and math.isfinite(width):
            # far above the rounding errors of logarithms over the rate
            slack = 1e-9 * (width + 1 + math.sqrt(self.noise.variance))
            return float(math.floor(width + slack))
        return width

    def error(self, dimension: int = 1) -> SumError:
        """Return the error of a vector of ``dimension`` such coordinates."""
        return SumError(
            self,
            dimension * self.mean_square,
            integers=self.integers,
            wrap_probability=min(1.0, dimension * self._wraps + self.failure),
        )


@lru_cache(maxsize=256)
def _reach(error: NoisySum, miss: float) -> float:
    """Return a half width in steps, cached as it takes up to a second and every run needs it."""
    return error.noise.half_width(miss, error.users if error.rounded else 0)
