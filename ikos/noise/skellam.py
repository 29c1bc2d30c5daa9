"""What Skellam noise in every coordinate guarantees for a sum of integer vectors.

Replacing one user moves the sum by some k in Z^d whose Euclidean norm is at most s. Independent
Skellam noise of variance v in every coordinate is (s eta(v))-Gaussian differentially private, where
eta(v) = 2 Phi^-1((1 + e^-v I_0(v)) / 2) is that of a shift by 1: documentation, Skellam noise. That
is at most mu / s if e^-v I_0(v) is at most erf(mu / (sqrt(8) s)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from ikos.counts.skellam import return_chance
from ikos.data.sensitivity import LaplaceNoise, Shift
from ikos.numeric.distributions import SkellamDistribution
from ikos.numeric.gaussian import shift_by_one
from ikos.numeric.rounding import UP, exact, float_up
from ikos.numeric.search import least_value
from ikos.primitives.samplers import MAX_SKELLAM

WORTH = 1.01
"""How much smaller noise with a delta must be to be preferred over purely private noise."""

FAILING = Fraction(1, 200)
"""The part of delta for vectors that randomized rounding moves further apart than is likely."""


@dataclass(frozen=True)
class SkellamNoise:
    """Skellam noise of a variance, in squared steps, and the delta proved for it, rounded up."""

    variance: Fraction
    delta: float
    method: ClassVar[str] = "skellam"

    @property
    def deviation(self) -> float:
        """Standard deviation, in steps."""
        return math.sqrt(self.variance)

    def law(self, variables: Fraction) -> SkellamDistribution:
        """Return the law of the sum of so many."""
        return SkellamDistribution(self.variance * variables)


@lru_cache(maxsize=256)
def least_skellam(epsilon: Fraction, delta: Fraction, l2_squared: int) -> SkellamNoise:
    """Return the smallest private Skellam noise, its variance rounded up to 24 bits."""
    most = shift_by_one(epsilon, delta, l2_squared)
    variance = least_value(
        lambda v: return_chance(v, UP) <= most, l2_squared / (epsilon + epsilon**2)
    )
    return SkellamNoise(variance, float_up(exact(delta, UP)))


VectorNoise = LaplaceNoise | SkellamNoise


def best_noise(
    epsilon: Fraction, delta: Fraction, shift: Shift, parties: int | None
) -> VectorNoise:
    """Return the smaller noise of the two for a shift, purely private if Skellam saves little.

    Skellam noise is one that so many ``parties`` can draw one share of each, if they are given.
    """
    pure = LaplaceNoise(epsilon / shift.l1)
    square, failing = shift.likely(delta * FAILING)
    found = least_skellam(epsilon, delta - failing, square)
    found = replace(found, delta=float_up(exact(delta, UP)))
    drawn = parties is None or found.variance <= MAX_SKELLAM * parties
    return found if drawn and WORTH * found.deviation < pure.deviation else pure
