"""Uniform noise: every user adds an integer between 0 and a small bound, none of them negative.

Each value of a user with its noise is bounded, so that it can be proved to be in its range, and the
sum never wraps around. The guarantee of all users' noise is `ikos.accounting.uniform_noise`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ikos.accounting.uniform_noise import composed_delta
from ikos.counts import hockey_stick
from ikos.counts.share_graph import ShareGraph
from ikos.data.sensitivity import Shift
from ikos.noise.base import Noise
from ikos.numeric.gaussian import gaussian_mu
from ikos.numeric.search import smallest
from ikos.numeric.uniform_sum import UniformSum
from ikos.primitives.randomness import RandomSource

MAX_WIDTH = 1 << 53


@dataclass(frozen=True)
class UniformNoise(Noise):
    """The sum of uniform integers of {0..width-1}, one of each of ``users``, in steps.

    It is not centred: a share has a mean of (width - 1) / 2. ``delta`` is proved for ``users``
    honest ones, whoever else adds noise, rounded up.
    """

    width: int
    users: int
    delta: float
    kind: ClassVar[str] = "uniform"
    parameter: ClassVar[str] = "width"
    theorem: ClassVar[str] = "uniform noise of all users, docs/verified-sums.md"
    hiding_theorem: ClassVar[str] = hockey_stick.THEOREM

    @property
    def value(self) -> Fraction:
        """The width."""
        return Fraction(self.width)

    @property
    def mean(self) -> Fraction:
        """(width - 1) / 2."""
        return Fraction(self.width - 1, 2)

    def shares(
        self, size: int, parties: int, rng: RandomSource
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Draw uniform integers, at all places; any number of ``parties`` draw the same."""
        del parties
        return np.arange(size), rng.uniform(self.width, size).astype(np.int64)

    def distribution(self, variables: Fraction) -> UniformSum:
        """Return the distribution of the sum of a number of variables, of whole users."""
        return UniformSum(int(variables * self.users), self.width)

    def divergences(
        self, q: int, graph: ShareGraph, users: int, length: int, sums: int
    ) -> hockey_stick.Divergences:
        """Return bounds that hold for any noise."""
        return hockey_stick.any_noise(q**length, graph, users, sums)

    def error_growth(self, ratio: Fraction) -> Fraction:
        """Return 1: how well shares are hidden does not depend on the noise."""
        del ratio
        return Fraction(1)

    @classmethod
    def least(
        cls, epsilon: Fraction, delta: Fraction, shift: Shift, parties: int | None
    ) -> Self | None:
        """Return the noise of the smallest width; None if no number of users is given."""
        if parties is None:
            return None

        def proved(width: int) -> float:
            return composed_delta(parties, width, shift.linf, epsilon, shift.moved)

        spread = shift.linf**2 * shift.moved / Fraction(gaussian_mu(epsilon, delta)) ** 2
        guess = math.ceil(math.sqrt(12 * spread / parties + 1))  # of Gaussian noise
        width = smallest(lambda width: proved(width) <= delta, guess, most=MAX_WIDTH)
        return cls(width, parties, proved(width))


@lru_cache(maxsize=256)
def most_steps(
    users: int, width: int, epsilon: Fraction, delta: Fraction, moved: int = 1, unit: int = 1
) -> int:
    """Return the largest private shift of each of ``moved`` coordinates; 0 if none is.

    It is a multiple of ``unit`` steps.
    """
    spread = UniformSum(users, width).variance / moved
    guess = gaussian_mu(epsilon, delta) * math.sqrt(spread) / unit  # of Gaussian noise

    def lost(units: int) -> bool:
        return composed_delta(users, width, units * unit, epsilon, moved) > delta

    return unit * (smallest(lost, math.ceil(guess), most=users * width) - 1)
