"""Sums of vectors by their coefficients: what AFNNTZ24's protocols for many messages share.

Asi, Feldman, Nelson, Nguyen, Talwar, Zhou, *Private Vector Mean Estimation in the Shuffle Model:
Optimal Rates Require Many Messages*, ICML 2024 (AFNNTZ24), Sections 1.3.1 and 2.2. With an error of
variance v in each sum of D coefficients, that of the sum of vectors has mean square (d / D) D v.
The guarantee is about D numbers in [-B, B], B = K R / sqrt(D), whatever the vector is: coefficients
are cut off there. See docs/vectors.md.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import integer, number
from ikos.accounting.optimal_composition import MAX_COPIES, MAX_LOCAL
from ikos.accuracy import NoiseLaw, chernoff
from ikos.aggregation.calibration import MAX_RELEASES
from ikos.baselines.base import Asked, Baseline
from ikos.baselines.kashin import KashinFrame
from ikos.domains import Ball
from ikos.errors import SumError, bennett
from ikos.modular import blocks
from ikos.noise import geometric, polya
from ikos.randomness import RandomSource
from ikos.results import SumResult

_BLOCK = 1 << 20
"""Draws of noise that are added up at a time."""

ROUNDING_SHARE = 0.25
"""What rounding may add to the variance of the noise, by default."""

MAX_MADE = 2 * 10**6
"""Expected messages in all, with those that cancel, beyond which a run simulates sums."""


@dataclass(frozen=True)
class SpreadError:
    """The error of one coordinate: all coefficients' errors, each with weight +-1/sqrt(D).

    ``law`` is that of the noise in each of D coefficients, in steps of ``step`` data units over
    sqrt(D). ``variance`` bounds what rounding and sampling add, ``largest`` one user's part of it,
    ``wraps`` the probability that a sum wraps around, and ``wrapped`` what that adds.
    """

    law: NoiseLaw
    coefficients: int
    step: float
    variance: float
    largest: float
    wraps: float = 0.0
    wrapped: float = 0.0

    @property
    def mean_square(self) -> float:
        """Bound on the mean square."""
        noise = self.coefficients * self.law.variance * self.step**2
        return noise + self.variance + self.wrapped

    def half_width(self, miss: float) -> float:
        """Return t such that the error exceeds t in absolute value with probability <= miss.

        By Chernoff's bound, with Bennett's for the users' errors. Terms are symmetric or bounded on
        both sides, so that the signs of the weights do not matter.
        """
        if miss <= 2 * self.wraps:
            return math.sqrt(self.mean_square / miss)

        def log_mgf(h: float) -> float:
            noise = float(self.law.log_mgf(h * self.step))
            return self.coefficients * noise + bennett(h, self.variance, self.largest)

        return chernoff(log_mgf, miss - self.wraps, float(self.law.rate) / self.step)


def user_variance(steps: int, g: float) -> float:
    """Return the largest variance of a sampled and rounded value in [0, 1], divided by g.

    A value (k + f) / p with 0 <= f <= 1 becomes k or k + 1 steps, so that the variance is
    (1 - g) (k + f)^2 + f (1 - f) over g p^2: largest in the last cell, k = p - 1.
    """
    k = steps - 1
    f = min(1.0, (2 * k * (1 - g) + 1) / (2 * g))
    return ((1 - g) * (k + f) ** 2 + f * (1 - f)) / (g * steps**2)


def framed(
    n: object,
    domain: Ball,
    epsilon: object,
    delta: object,
    min_honest: object,
    releases: object,
    seed: int,
    bound: float,
) -> tuple[Asked, KashinFrame, int]:
    """Check what both protocols take; the last is for how many releases."""
    asked = Asked.of(n, domain, epsilon, delta, min_honest)
    number("epsilon", epsilon, high=MAX_LOCAL)
    if not isinstance(domain, Ball):
        raise TypeError(f"domain must be a Ball, got {type(domain).__name__}")
    frame = KashinFrame(domain.dimension, seed, bound)
    times = integer("releases", releases, low=1, high=MAX_RELEASES)
    if times * frame.rows > MAX_COPIES:
        raise ValueError(
            f"releases must be at most {MAX_COPIES // frame.rows:,} for {frame.rows:,} "
            f"coefficients, of which {MAX_COPIES:,} are accounted for together, got {times:,}"
        )
    return asked, frame, times


@dataclass(frozen=True, init=False, repr=False)
class CoefficientSums(Baseline):
    """Sums of the coefficients of Kashin's representation."""

    domain: Ball
    frame: KashinFrame
    releases: int
    precision: int
    proved_delta: float

    @property
    def coefficients(self) -> int:
        """How many coefficients a vector has: D."""
        return self.frame.rows

    @property
    def half(self) -> float:
        """Bound B on the coefficients, in the data's units."""
        return self.frame.largest * self.domain.reach

    def _units(self, rows: NDArray[np.float64], first: int = 0) -> NDArray[np.float64]:
        """Return coefficients mapped from [-B, B] to [0, 1], (k, D); ``first`` is for warnings."""
        units = np.empty((rows.shape[0], self.coefficients))
        largest = self.frame.largest
        for part, found, failed in self.frame._searched(rows, self.domain.reach):
            if failed.size:
                self._warn(first + part.start + failed)
            np.multiply(found, 0.5 / largest, out=units[part])
        units += 0.5
        # Privacy rests on this: not on the search, which leaves some vectors outside.
        np.clip(units, 0.0, 1.0, out=units)
        return units

    def _warn(self, failed: NDArray[np.int64]) -> None:
        more = f" and {failed.size - 1:,} more" if failed.size > 1 else ""
        warnings.warn(
            f"x[{failed[0]}]{more}: no coefficients within {self.frame.bound:g}/"
            f"sqrt({self.coefficients}) were found; they are cut off there, which is private, but "
            "this part of the estimate is biased. Use another public seed, or a larger bound",
            RuntimeWarning,
            stacklevel=2,
        )

    def _sum(self, units: NDArray[np.float64], users: int) -> NDArray[np.float64]:
        """Return the sum of vectors, (d,), from the sums of units, (D,)."""
        centred = self.half * (2 * units - users)
        found: NDArray[np.float64] = self.frame.vectors(centred[np.newaxis])[0]
        return found

    def _error(
        self, law: NoiseLaw, users: int, g: float, wraps: float = 0.0, wrapped: float = 0.0
    ) -> SumError:
        width = 2 * self.half
        each = width / math.sqrt(self.coefficients)
        coordinate = SpreadError(
            law,
            self.coefficients,
            each / (self.precision * g),
            users * width**2 * user_variance(self.precision, g),
            each / g,
            wraps,
            wrapped,
        )
        sampled = user_variance(self.precision, g) - user_variance(self.precision, 1.0)
        return SumError(
            coordinate,
            self.dimension * coordinate.mean_square,
            self.dimension * users * width**2 * sampled,
        )

    def _play(self, values: NDArray[Any], rng: RandomSource) -> SumResult:
        users = values.shape[0]
        if users * self._sent[0] <= MAX_MADE:
            return super()._play(values, rng)
        totals = np.zeros(self.coefficients, dtype=np.int64)
        first = 0
        for rows in self._rows(values):
            totals += self._encoded(self._units(rows, first), rng).sum(axis=0)
            first += rows.shape[0]
        return self._result(self._noisy(totals, users, rng), users)

    def _all_messages(self, values: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        return self._messages(values.astype(np.float64), rng)

    @abstractmethod
    def _encoded(self, units: NDArray[np.float64], rng: RandomSource) -> NDArray[np.int64]:
        """Return what of each coefficient is sent, (k, D), in {0..p}."""

    @abstractmethod
    def _noisy(
        self, totals: NDArray[np.int64], users: int, rng: RandomSource
    ) -> NDArray[np.float64]:
        """Return an estimate from the sums of what is encoded, by sums of all noise."""


def noise_sums(
    rate: Fraction, users: int, honest: int, many: int, rng: RandomSource
) -> NDArray[np.int64]:
    """Return sums of all users' noise: differences of Polya(users / honest) variables."""
    whole, part = divmod(Fraction(users, honest), 1)
    result = np.zeros(many, dtype=np.int64)
    for sign in (1, -1):
        for part_of_them in blocks(whole, max(1, _BLOCK // many)):
            each = part_of_them.stop - part_of_them.start
            drawn = geometric(rate, many * each, rng).astype(np.int64)
            result += sign * drawn.reshape(many, each).sum(axis=1)
        if part:
            result += sign * polya(part, rate, many, rng).astype(np.int64)
    return result
