"""The interface of the noises of private sums: draws, distribution, and hiding of shares."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ikos.counts.hockey_stick import Divergences
from ikos.counts.share_graph import ShareGraph
from ikos.data.sensitivity import Shift
from ikos.numeric import distributions
from ikos.primitives.randomness import RandomSource


class Noise(ABC):
    """The noise of one coordinate of a sum, in steps of the encoding; the same for all coordinates.

    A new one is a module of this package and an entry in `ikos.noise.choice.NOISES`.
    """

    kind: ClassVar[str]
    """Its name in tasks."""

    parameter: ClassVar[str]
    """The name of ``value``, which is a field of `ikos.counts.Layout` too: rate or variance."""

    theorem: ClassVar[str]
    """The theorem by which it makes a sum private."""

    hiding_theorem: ClassVar[str]
    """The theorem by which shuffled shares of values hide it."""

    delta: float
    """The delta that it proves for the sum, rounded up; 0.0 for pure differential privacy."""

    @property
    def mean(self) -> Fraction:
        """Mean of a share, in steps, which is subtracted from sums."""
        return Fraction(0)

    @property
    def value(self) -> Fraction:
        """The parameter that determines it."""
        value: Fraction = getattr(self, self.parameter)
        return value

    @property
    def deviation(self) -> float:
        """Standard deviation, in steps."""
        return math.sqrt(self.distribution(Fraction(1)).variance)

    @abstractmethod
    def shares(
        self, size: int, parties: int, rng: RandomSource
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Draw ``size`` independent shares; the sum of any ``parties`` of them is this noise.

        Returns the places of those that are not 0, ascending, and the integers there.
        """

    def whole(self, size: int, rng: RandomSource) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Draw ``size`` independent variables, each all of this noise, as `shares`."""
        return self.shares(size, 1, rng)

    @abstractmethod
    def distribution(self, variables: Fraction) -> distributions.Distribution:
        """Return the distribution of the sum of a number of variables, perhaps a fraction."""

    @abstractmethod
    def divergences(
        self, q: int, graph: ShareGraph, users: int, length: int, sums: int
    ) -> Divergences:
        """Return bounds of the second moments of shuffled shares of values with this noise.

        ``users`` add it together, to each of ``sums`` blocks of ``length`` coordinates.
        """

    @abstractmethod
    def error_growth(self, ratio: Fraction) -> Fraction:
        """Return about the growth of hiding's relative error if epsilon grows by a ratio."""

    @classmethod
    @abstractmethod
    def least(
        cls, epsilon: Fraction, delta: Fraction, shift: Shift, parties: int | None
    ) -> Self | None:
        """Return the smallest noise that is (epsilon, delta)-private for a shift.

        None if its shares could not be drawn by ``parties``, if they are given.
        """


@dataclass(frozen=True)
class PlacedNoise(ABC):
    """A noise with those who add it: ``parties`` of them, users or the parties of a sum."""

    noise: Noise
    parties: int

    @abstractmethod
    def entries(self, size: int, rng: RandomSource) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Draw what users add to ``size`` entries, all independent, as `Noise.shares`."""

    @abstractmethod
    def distribution(self, users: int) -> distributions.Distribution:
        """Return the distribution of the noise of one coordinate of a sum of some users.

        That of noise with a mean is the distribution of the rest.
        """

    def mean(self, users: int) -> Fraction:
        """Return the mean of that noise, in steps."""
        del users
        return Fraction(0)


class UsersNoise(PlacedNoise):
    """Noise of which every user adds a share; those of ``parties`` users add up to all of it."""

    def entries(self, size: int, rng: RandomSource) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Draw the shares of ``size`` entries."""
        return self.noise.shares(size, self.parties, rng)

    def distribution(self, users: int) -> distributions.Distribution:
        """Return the distribution of the noise that a number of users add to one coordinate."""
        return self.noise.distribution(Fraction(users, self.parties))

    def mean(self, users: int) -> Fraction:
        """Return the mean of the shares of a number of users."""
        return users * self.noise.mean


class PartiesNoise(PlacedNoise):
    """Noise of which each of ``parties`` parties adds all, and users none."""

    def entries(self, size: int, rng: RandomSource) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return that users add nothing."""
        del size, rng
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)

    def distribution(self, users: int) -> distributions.Distribution:
        """Return the distribution of the noise that all parties add to one coordinate."""
        del users
        return self.noise.distribution(Fraction(self.parties))
