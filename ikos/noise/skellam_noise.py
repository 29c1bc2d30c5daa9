"""The guarantee of Skellam noise in every coordinate of a sum of integer vectors.

Replacing one user moves the sum by some k in Z^d whose Euclidean norm is at most s. Independent
Skellam noise of variance v in every coordinate is (s eta(v))-Gaussian differentially private, where
eta(v) = 2 Phi^-1((1 + e^-v I_0(v)) / 2) is that of a shift by 1: docs/skellam.md. That is at most
mu / s if e^-v I_0(v) is at most erf(mu / (sqrt(8) s)).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ikos.counts import skellam
from ikos.counts.hockey_stick import Divergences
from ikos.counts.share_graph import ShareGraph
from ikos.data.sensitivity import Shift
from ikos.noise.base import Noise
from ikos.numeric.distributions import SkellamDistribution
from ikos.numeric.gaussian import LEAST_DELTA, shift_by_one
from ikos.numeric.rounding import UP, exact, float_up
from ikos.numeric.search import least_value
from ikos.primitives.randomness import RandomSource
from ikos.primitives.samplers import MAX_SKELLAM, skellam_draws

FAILING = Fraction(1, 200)
"""Fraction of delta for vectors that randomized rounding moves further apart than is likely."""


@dataclass(frozen=True)
class SkellamNoise(Noise):
    """Skellam noise of a variance, in squared steps, and the delta proved for it, rounded up."""

    variance: Fraction
    delta: float
    kind: ClassVar[str] = "skellam"
    parameter: ClassVar[str] = "variance"
    theorem: ClassVar[str] = (
        "Skellam noise, by Gaussian differential privacy of rounded vectors' l2 distances"
    )
    hiding_theorem: ClassVar[str] = skellam.THEOREM

    def shares(
        self, size: int, parties: int, rng: RandomSource
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Draw Skellam variables of variance / parties, at all places."""
        return np.arange(size), skellam_draws(self.variance / parties, size, rng)

    def distribution(self, variables: Fraction) -> SkellamDistribution:
        """Return the distribution of the sum of a number of variables."""
        return SkellamDistribution(self.variance * variables)

    def divergences(
        self, q: int, graph: ShareGraph, users: int, length: int, sums: int
    ) -> Divergences:
        """Return bounds by the probability that Skellam variables agree."""
        return skellam.divergences(q, graph, users, self.variance, length, sums)

    def error_growth(self, ratio: Fraction) -> Fraction:
        """Return the cube of the ratio: less noise hides less."""
        return ratio**3

    @classmethod
    def least(
        cls, epsilon: Fraction, delta: Fraction, shift: Shift, parties: int | None
    ) -> Self | None:
        """Return the noise of the smallest variance, rounded up to 24 bits.

        None if ``parties`` could not draw one share of it each, or delta is below 1e-310.
        """
        square, failing = shift.likely(delta * FAILING)
        if delta - failing < LEAST_DELTA:
            return None
        variance = least_skellam(epsilon, delta - failing, square).variance
        if parties is not None and variance > MAX_SKELLAM * parties:
            return None
        return cls(variance, float_up(exact(delta, UP)))


@lru_cache(maxsize=256)
def least_skellam(epsilon: Fraction, delta: Fraction, l2_squared: int) -> SkellamNoise:
    """Return the smallest private Skellam noise, its variance rounded up to 24 bits."""
    most = shift_by_one(epsilon, delta, l2_squared)
    variance = least_value(
        lambda v: skellam.return_chance(v, UP) <= most, l2_squared / (epsilon + epsilon**2)
    )
    return SkellamNoise(variance, float_up(exact(delta, UP)))
