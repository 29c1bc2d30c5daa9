"""What Skellam noise in every coordinate guarantees for a sum of integer vectors.

Replacing one user moves the sum by some k in Z^d whose Euclidean norm is at most s. Independent
Skellam noise of variance v in every coordinate is (s eta(v))-Gaussian differentially private, where
eta(v) = 2 Phi^-1((1 + e^-v I_0(v)) / 2) is that of a shift by 1: documentation, Skellam noise. Here
distances are in units of sqrt(8), in which that is erf(u) = e^-v I_0(v).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import gmpy2
from gmpy2 import mpfr

from ikos.accounting.gaussian import delta_at, shift_by_one
from ikos.accounting.vector_noise import LaplaceNoise, Shift, least_value
from ikos.accuracy import SkellamLaw
from ikos.counts.rounding import DOWN, UP, exact, float_up, rounding
from ikos.counts.skellam import return_chance
from ikos.noise import MAX_SKELLAM

_MOST = 1 - Fraction(1, 1 << 100)  # chance of no noise of which a delta is computed

WORTH = 1.01
"""How much smaller noise with a delta must be to be preferred over purely private noise."""


FAILING = Fraction(1, 200)
"""The part of delta for vectors that randomized rounding moves further apart than is likely."""


@lru_cache(maxsize=256)
def step(variance: Fraction) -> mpfr:
    """Return u with erf(u) = e^-v I_0(v), rounded up: a shift by 1 is (sqrt(8) u)-private."""
    chance = return_chance(variance, UP)
    if chance > exact(_MOST, DOWN):
        return gmpy2.inf()

    def enough(u: mpfr) -> bool:
        with rounding(DOWN):
            return bool(gmpy2.erf(u) >= chance)

    with rounding(UP):
        half = gmpy2.sqrt(gmpy2.const_pi()) / 2
        u = chance * half
        while not enough(u):  # Newton's steps stay below, as erf is concave, but for the last one
            slope = gmpy2.exp(-u * u) / half
            u = (u + (chance - gmpy2.erf(u)) / slope) * (1 + mpfr(2) ** -100)
    return u


def skellam_delta(epsilon: Fraction, variance: Fraction, l2_squared: int) -> float:
    """Return the delta of Skellam noise of any dimension, rounded up."""
    with rounding(UP):
        return delta_at(epsilon, gmpy2.sqrt(mpfr(l2_squared)) * step(variance))


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

    def law(self, variables: Fraction) -> SkellamLaw:
        """Return the law of the sum of so many."""
        return SkellamLaw(self.variance * variables)


@lru_cache(maxsize=256)
def least_skellam(epsilon: Fraction, delta: Fraction, l2_squared: int) -> SkellamNoise:
    """Return the smallest private Skellam noise, its variance rounded up to 24 bits."""
    most = min(shift_by_one(epsilon, delta, l2_squared), exact(_MOST, DOWN))
    variance = least_value(
        lambda v: return_chance(v, UP) <= most, l2_squared / (epsilon + epsilon**2)
    )
    return SkellamNoise(variance, skellam_delta(epsilon, variance, l2_squared))


VectorNoise = LaplaceNoise | SkellamNoise


def best_noise(
    epsilon: Fraction, delta: Fraction, shift: Shift, parties: int | None
) -> VectorNoise:
    """Return the smaller noise of the two for a shift, purely private if Skellam saves little.

    If it is given, so many ``parties`` can draw one share each, of a variance that can be drawn.
    """
    pure = LaplaceNoise(epsilon / shift.l1)
    square, failing = shift.likely(delta * FAILING)
    found = least_skellam(epsilon, delta - failing, square)
    found = replace(found, delta=float_up(exact(Fraction(found.delta) + failing, UP)))
    drawn = parties is None or found.variance <= MAX_SKELLAM * parties
    return found if drawn and WORTH * found.deviation < pure.deviation else pure
