"""How far the replacement of one user's vector moves a sum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import gmpy2

from ikos._validation import integer, number
from ikos.counts.rounding import UP, exact, rounding

MAX_COORDINATES = 1 << 21

MAX_EPSILON = 1e6

ROOTS_UP = Fraction((1 << 52) + 1, 1 << 52)
"""A double that stands for a square root is below it by a smaller part than this."""

Real = int | float | Fraction


@dataclass(frozen=True)
class Sensitivity:
    """How far the replacement of one user's vector moves a sum at most, in three norms.

    Parameters
    ----------
    l1, l2, linf : float, optional
        Bounds of the sum of absolute values, of the Euclidean norm, and of the largest absolute
        value; at least one. What is left out follows from the others, and so does what is loose.

    Raises
    ------
    TypeError, ValueError
        If none is given, or one is not a positive finite number.

    Examples
    --------
    >>> Sensitivity(l1=2, linf=1).steps(100)  # one-hot vectors of 100 coordinates
    Shift(dimension=100, l1=2, l2_squared=2, linf=1)
    >>> Sensitivity(l2=10).steps(4)
    Shift(dimension=4, l1=20, l2_squared=100, linf=10)
    """

    l1: Real | None = None
    l2: Real | None = None
    linf: Real | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("l1", "l2", "linf") if getattr(self, name) is not None]
        if not given:
            raise ValueError("sensitivity must bound at least one of l1, l2, linf, got none")
        for name in given:
            object.__setattr__(self, name, number(name, getattr(self, name), above=0))

    def steps(
        self, dimension: int, *, scale: Real = 1, rounding_error: Real = 0, most: int | None = None
    ) -> Shift:
        """Return what it allows of integer vectors.

        Parameters
        ----------
        dimension : int
            Coordinates.
        scale : float
            Steps of the encoding in one unit of the norms.
        rounding_error : float
            In steps: both encodings differ from what is encoded by less than half of this in each
            coordinate. 0 where encoding is exact, 2 for randomized rounding.
        most : int, optional
            Largest absolute value of a coordinate of a difference, whatever the norms say.

        Raises
        ------
        ValueError
            If nothing can move: the norms are below one step.
        """
        d = integer("dimension", dimension, low=1, high=MAX_COORDINATES)
        steps = number("scale", scale, above=0)
        error = number("rounding_error", rounding_error, low=0)
        l1 = None if self.l1 is None else Fraction(self.l1) * steps + d * error
        linf = None if self.linf is None else Fraction(self.linf) * steps + error
        squared = None
        if self.l2 is not None:
            l2 = Fraction(self.l2) * ROOTS_UP * steps
            squared = (l2 + _root_up(d * error**2)) ** 2
        if most is not None:
            linf = Fraction(most) if linf is None else min(linf, Fraction(most))
        return Shift.within(d, l1, squared, linf)


@dataclass(frozen=True)
class Shift:
    """Bounds of what integer vectors differ by, made as tight as each other allows.

    Attributes
    ----------
    dimension : int
        Coordinates.
    l1, l2_squared, linf : int
        Bounds of the norms, that of l2 squared: integers, as the norms of integer vectors are.
    """

    dimension: int
    l1: int
    l2_squared: int
    linf: int

    @classmethod
    def within(
        cls,
        dimension: int,
        l1: Fraction | None,
        l2_squared: Fraction | None,
        linf: Fraction | None,
    ) -> Shift:
        """Return the tightest integer bounds that follow from some of the three."""
        d = dimension
        tallest = [math.floor(bound) for bound in (linf, l1) if bound is not None]
        if l2_squared is not None:
            tallest.append(math.isqrt(math.floor(l2_squared)))
        highest = min(tallest)
        if highest < 1:
            raise ValueError("sensitivity must be at least one step of the encoding, got less")
        whole = [d * highest] if l1 is None else [math.floor(l1), d * highest]
        squares = [d * highest**2, min(whole) * highest]
        if l2_squared is not None:
            squares.append(math.floor(l2_squared))
        square = min(squares)
        whole += [math.isqrt(d * square), square]  # Cauchy-Schwarz; |k| <= k^2 for integers
        return cls(d, min(whole), square, highest)

    def repeated(self, times: int) -> Shift:
        """Return the bounds of so many sums side by side, each with noise of its own.

        What the three methods prove for it holds for sums one after the other as well, in which
        users adapt to what came before: it adds up over coordinates whatever k is in the next one.
        """
        return Shift(self.dimension * times, self.l1 * times, self.l2_squared * times, self.linf)

    @property
    def support(self) -> int:
        """How many coordinates can differ, at most."""
        return min(self.dimension, self.l1, self.l2_squared)


def _root_up(value: Fraction) -> Fraction:
    """Return a square root of a rational, rounded up."""
    with rounding(UP):
        above, below = gmpy2.sqrt(exact(value, UP)).as_integer_ratio()
    return Fraction(int(above), int(below))
