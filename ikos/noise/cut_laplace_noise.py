"""Discrete Laplace noise whose shares are cut at a bound, so that the bound can be proved.

A share is a difference of Polya(r) variables A, r = 1/n, and beyond B with a probability of at most
2 P[A > B], where P[A = k] <= a^k (r/k) prod_(j < k) (1 + r/j) <= r e^r k^(r-1) a^k for a = e^-rate.
So some of n shares is cut with probability at most c = 2 e^r (B + 1)^(r-1) a^(B+1) / (1 - a). Where
none is, the noise is Laplace: a coordinate that changes costs (1 + e^epsilon) c of delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import gmpy2
import numpy as np
from numpy.typing import NDArray

from ikos.data.sensitivity import Shift
from ikos.noise.laplace_noise import LaplaceNoise
from ikos.numeric.distributions import PolyaDifference
from ikos.numeric.rounding import UP, exact, float_up, rounding
from ikos.numeric.search import smallest
from ikos.primitives.randomness import RandomSource


@dataclass(frozen=True)
class CutDifference(PolyaDifference):
    """A distribution but for a probability ``cut`` that any share is cut, which misses include."""

    cut: float

    def half_width(self, miss: float, users: int) -> float:
        """Return t with P[abs(noise + rounding error) > t] <= miss."""
        return super().half_width(miss - self.cut, users) if miss > self.cut else math.inf


@dataclass(frozen=True, kw_only=True)
class CutLaplaceNoise(LaplaceNoise):
    """Laplace noise of shares of {0..width-1}, some of which is cut with probability ``cut``."""

    width: int
    cut: float
    delta: float = 1.0  # type: ignore[misc]
    kind: ClassVar[str] = "cut"
    parameter: ClassVar[str] = "cut_width"
    theorem: ClassVar[str] = "cut discrete Laplace noise of l1 sensitivity, docs/verified-sums.md"

    @property
    def cut_width(self) -> Fraction:
        """The width."""
        return Fraction(self.width)

    @property
    def mean(self) -> Fraction:
        """The bound B of the absolute values of shares, which is added to them."""
        return Fraction(self.width // 2)

    def shares(
        self, size: int, parties: int, rng: RandomSource
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Draw shares and cut them, at all places."""
        noise = np.full(size, self.width // 2)
        places, amounts = super().shares(size, parties, rng)
        noise[places] += np.clip(amounts, -noise[places], noise[places]).astype(np.int64)
        return np.arange(size), noise

    def distribution(self, variables: Fraction) -> CutDifference:
        """Return the distribution of the sum of a number of variables."""
        return CutDifference(self.rate, variables, self.cut * float(variables))

    @classmethod
    def least(cls, epsilon: Fraction, delta: Fraction, shift: Shift, parties: int | None) -> Self:
        """Return the noise of rate epsilon / l1 with the smallest bound."""
        rate, share = epsilon / shift.l1, Fraction(1, parties or 1)

        def proved(bound: int) -> tuple[float, float]:
            with rounding(UP):  # the factor is above 2 by more than errors are
                s, r = exact(rate, UP), exact(share, UP)
                log = r - s * (bound + 1) + (r - 1) * gmpy2.log(bound + 1)
                cut = (2 + gmpy2.mpfr(2) ** -100) * gmpy2.exp(log) / -gmpy2.expm1(-s)
                delta = shift.moved * cut * (1 + gmpy2.exp(exact(epsilon, UP)))
                return min(1.0, float_up(cut)), min(1.0, float_up(delta))

        bound = smallest(lambda b: proved(b)[1] <= delta, math.ceil(20 / rate), most=1 << 50)
        cut, total = proved(bound)
        return cls(rate, width=2 * bound + 1, cut=cut, delta=total)
