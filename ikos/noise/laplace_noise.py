"""Discrete Laplace noise: pure differential privacy for a bounded l1 shift."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ikos.counts import hockey_stick
from ikos.counts.share_graph import ShareGraph
from ikos.data.sensitivity import Shift
from ikos.noise.base import Noise
from ikos.numeric.distributions import PolyaDifference
from ikos.primitives.randomness import RandomSource
from ikos.primitives.samplers import polya_shares


@dataclass(frozen=True)
class LaplaceNoise(Noise):
    """Noise of probabilities proportional to exp(-rate |k|) in k steps: (rate l1)-private.

    Its shares are differences of Polya variables (BBGN20, Section 5.2).
    """

    rate: Fraction
    kind: ClassVar[str] = "laplace"
    parameter: ClassVar[str] = "rate"
    theorem: ClassVar[str] = "discrete Laplace noise of l1 sensitivity"
    hiding_theorem: ClassVar[str] = hockey_stick.THEOREM
    delta: ClassVar[float] = 0.0  # type: ignore[misc]

    def shares(
        self, size: int, parties: int, rng: RandomSource
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Draw differences of independent Polya(1 / parties, e^-rate) variables."""
        return polya_shares(size, self.rate, parties, rng)

    def distribution(self, variables: Fraction) -> PolyaDifference:
        """Return the distribution of the sum of a number of variables."""
        return PolyaDifference(self.rate, variables)

    def divergences(
        self, q: int, graph: ShareGraph, users: int, length: int, sums: int
    ) -> hockey_stick.Divergences:
        """Return bounds by the jumps of the noise."""
        jumps = hockey_stick.NoiseJumps.discrete_laplace(users, self.rate, length)
        return hockey_stick.divergences(q**length, graph, jumps).of_sums(sums, graph)

    def error_growth(self, ratio: Fraction) -> Fraction:
        """Return a little: fewer jumps hide less, which more than makes up for it."""
        del ratio
        return Fraction(1025, 1024)

    @classmethod
    def least(cls, epsilon: Fraction, delta: Fraction, shift: Shift, parties: int | None) -> Self:
        """Return the noise of rate epsilon / l1."""
        del delta, parties
        return cls(epsilon / shift.l1)
