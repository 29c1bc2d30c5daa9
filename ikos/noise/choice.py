"""The choice of a private sum's noise: the smallest one within its budget."""

from __future__ import annotations

from fractions import Fraction

from ikos.data.sensitivity import Shift
from ikos.noise.base import Noise
from ikos.noise.laplace_noise import LaplaceNoise
from ikos.noise.skellam_noise import SkellamNoise

NOISES: tuple[type[Noise], ...] = (LaplaceNoise, SkellamNoise)
"""All noises of private sums; the first is preferred."""

HIDING_FRACTION = Fraction(1, 100)
"""Fraction of delta spent on hiding noise that itself needs a delta."""

WORTHWHILE_RATIO = 1.01
"""Least ratio of standard deviations at which a noise is preferred to an earlier one."""


def best_noise(epsilon: Fraction, delta: Fraction, shift: Shift, parties: int | None) -> Noise:
    """Return the smallest noise for a shift: the first unless another is smaller by a percent.

    It can be drawn as shares of ``parties``, if they are given.
    """
    best, *others = (noise.least(epsilon, delta, shift, parties) for noise in NOISES)
    assert best is not None  # noise with pure differential privacy can be drawn in any size
    for other in others:
        if other is not None and WORTHWHILE_RATIO * other.deviation < best.deviation:
            best = other
    return best
