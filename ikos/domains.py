"""Where users' vectors lie: public, and not taken from the data.

Every protocol says which domain it is for, and its guarantee is for vectors of that domain alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import array, integer, number, quote, real
from ikos.bounds import MAX_BOUND, Bounds, require
from ikos.bounds import Domain as Domain
from ikos.modular import blocks

MAX_DIMENSION = 1 << 20
"""Most coordinates."""

TOLERANCE = 1e-9
"""Relative excess of a norm that is taken for the rounding of a computed vector.

Protocols for a ball count with a radius that is larger by it.
"""

MAX_RADIUS = 1e99
"""Largest radius of a ball: the tolerance on top is then still within what `ikos.Bounds` takes."""

_BLOCK = 1 << 21
"""Entries that are checked at a time."""


class Vectors(Domain):
    """A set of vectors."""

    @abstractmethod
    def _check(self, rows: NDArray[np.float64], first: int) -> None:
        """Raise ValueError for the first of some rows that is outside; ``first`` is its number."""

    def values(self, x: ArrayLike, first: int = 0) -> NDArray[Any]:
        """Return vectors, (k, dimension), that were checked, still in the data's type and units.

        NaN is outside of every domain. ``first`` is the number of the first user, for messages.
        """
        given = real("x", x, first)
        if given.ndim != 2 or given.shape[1] != self.dimension:
            raise ValueError(
                f"x must have shape (users, {self.dimension}), a row for each user, got shape "
                f"{given.shape}"
            )
        for part in blocks(given.shape[0], max(1, _BLOCK // self.dimension)):
            self._check(given[part].astype(np.float64, copy=False), first + part.start)
        return given

    def value(self, x: ArrayLike) -> NDArray[Any]:
        """Return one user's vector, checked, as an array of one row."""
        given = array("x", x)
        if given.ndim != 1:
            raise ValueError(f"x must be one vector of {self.dimension}, got shape {given.shape}")
        return self.values(given[np.newaxis])


def _dimension(value: object) -> int:
    return integer("dimension", value, low=1, high=MAX_DIMENSION)


@dataclass(frozen=True)
class Box(Vectors):
    """Vectors whose coordinates each lie between public bounds.

    Parameters
    ----------
    dimension : int
        Coordinates.
    lower, upper : float
        Of each coordinate, as of `ikos.bounds.Bounds`.

    Examples
    --------
    >>> Box(2, -1, 1).values([[0.5, -1.0]])
    array([[ 0.5, -1. ]])
    >>> Box(2).values([[0.5, -1.0]])
    Traceback (most recent call last):
    ...
    ValueError: x[0, 1] must be in [0, 1]
    """

    dimension: int
    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", _dimension(self.dimension))
        bounds = Bounds(self.lower, self.upper)
        object.__setattr__(self, "lower", bounds.lower)
        object.__setattr__(self, "upper", bounds.upper)

    @property
    def bounds(self) -> Bounds:
        """Of each coordinate."""
        return Bounds(self.lower, self.upper)

    @property
    def diameter(self) -> float:
        """Between opposite corners."""
        return float(self.bounds.width * np.sqrt(self.dimension))

    def _check(self, rows: NDArray[np.float64], first: int) -> None:
        inside = (rows >= self.lower) & (rows <= self.upper)  # False for NaN
        require(inside, first, f"be in [{self.lower:g}, {self.upper:g}]")


@dataclass(frozen=True)
class Ball(Vectors):
    """Vectors of bounded Euclidean norm, such as clipped gradients.

    Parameters
    ----------
    dimension : int
        Coordinates.
    radius : float
        Largest norm, at most 1e99. A norm that is larger by a part of 1e-9 is taken for rounding.

    Examples
    --------
    >>> Ball(2).values([[0.6, -0.8]])
    array([[ 0.6, -0.8]])
    >>> Ball(2).values([[1.0, 1.0]])
    Traceback (most recent call last):
    ...
    ValueError: x[0] must have a norm of at most 1; clip it in double precision
    """

    dimension: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", _dimension(self.dimension))
        radius = number("radius", self.radius, low=1 / MAX_BOUND, high=MAX_RADIUS)
        object.__setattr__(self, "radius", float(radius))

    @property
    def reach(self) -> float:
        """What norms are at most: the radius and the tolerance."""
        return self.radius * (1 + 2 * TOLERANCE)

    @property
    def diameter(self) -> float:
        """Of two opposite vectors of the greatest norm."""
        return 2 * self.reach

    @property
    def lower(self) -> float:
        """Smallest value of a coordinate."""
        return -self.radius

    @property
    def upper(self) -> float:
        """Largest value of a coordinate."""
        return self.radius

    def _check(self, rows: NDArray[np.float64], first: int) -> None:
        require(np.isfinite(rows), first, "be finite")
        # Scaled first, so that squares neither overflow nor vanish. A computed norm is within a
        # part d 2^-52 of the true one: less than the tolerance for every dimension.
        inside = np.linalg.norm(rows / self.radius, axis=1) <= 1 + TOLERANCE
        said = f"have a norm of at most {self.radius:g}; clip it in double precision"
        require(inside, first, said)


@dataclass(frozen=True)
class SparseTernary(Vectors):
    """Vectors of -1, 0 and 1 with few that are not 0: key-value data, ternary gradients.

    Parameters
    ----------
    dimension : int
        Coordinates (keys).
    sparsity : int
        How many may differ from 0, at most; between 1 and the dimension.

    Examples
    --------
    >>> SparseTernary(3, 1).values([[0, -1, 0]])
    array([[ 0, -1,  0]])
    >>> SparseTernary(3, 1).values([[1, -1, 0]])
    Traceback (most recent call last):
    ...
    ValueError: x[0] must have at most 1 entries that are not 0
    """

    dimension: int
    sparsity: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", _dimension(self.dimension))
        sparsity = integer("sparsity", self.sparsity, low=1, high=self.dimension)
        object.__setattr__(self, "sparsity", sparsity)

    @property
    def diameter(self) -> float:
        """Of two opposite vectors."""
        return 2 * float(np.sqrt(self.sparsity))

    @property
    def lower(self) -> float:
        """Smallest value of a coordinate."""
        return -1.0

    @property
    def upper(self) -> float:
        """Largest value of a coordinate."""
        return 1.0

    def _check(self, rows: NDArray[np.float64], first: int) -> None:
        require((rows == 0) | (rows == 1) | (rows == -1), first, "be -1, 0 or 1")  # False for NaN
        sparse = np.count_nonzero(rows, axis=1) <= self.sparsity
        require(sparse, first, f"have at most {self.sparsity} entries that are not 0")


@dataclass(frozen=True)
class Categories(Vectors):
    """Vectors with exactly one 1 in each of some runs of coordinates, and 0 elsewhere (one-hot).

    Parameters
    ----------
    sizes : sequence of int
        How many categories each question has, at least one question.

    Examples
    --------
    >>> Categories([2, 3]).values([[0, 1, 1, 0, 0]])
    array([[0, 1, 1, 0, 0]])
    >>> Categories([2, 3]).values([[0, 1, 1, 1, 0]])
    Traceback (most recent call last):
    ...
    ValueError: x[0] must have exactly one 1 among its entries 2 to 4
    """

    sizes: Sequence[int]

    def __post_init__(self) -> None:
        # a set has no order, and forgets sizes that are equal
        given: object = self.sizes
        if isinstance(given, (str, bytes)) or not isinstance(given, (Sequence, np.ndarray)):
            kind = type(given).__name__
            raise TypeError(f"sizes must be a sequence of integers, got {kind} {quote(given)}")
        if not len(self.sizes):
            raise ValueError(f"sizes must hold at least one number, got {quote(self.sizes)}")
        sizes = tuple(integer("sizes", size, low=1) for size in self.sizes)
        integer("sizes in all", sum(sizes), high=MAX_DIMENSION)
        object.__setattr__(self, "sizes", sizes)

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """Categories of all questions together."""
        return sum(self.sizes)

    @property
    def diameter(self) -> float:
        """Of two vectors that differ in every answer."""
        return float(np.sqrt(2 * len(self.sizes)))

    @property
    def lower(self) -> float:
        """Smallest value of a coordinate."""
        return 0.0

    @property
    def upper(self) -> float:
        """Largest value of a coordinate."""
        return 1.0

    @property
    def runs(self) -> list[slice]:
        """The coordinates of each question."""
        edges = np.concatenate(([0], np.cumsum(self.sizes))).tolist()
        return [slice(first, last) for first, last in pairwise(edges)]

    def _check(self, rows: NDArray[np.float64], first: int) -> None:
        require((rows == 0) | (rows == 1), first, "be 0 or 1")  # False for NaN
        for run in self.runs:
            said = f"have exactly one 1 among its entries {run.start} to {run.stop - 1}"
            require(rows[:, run].sum(axis=1) == 1, first, said)
