"""Domains in general, and public bounds on numbers, which map data to [0, 1] and results back."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import number, real, vector

__all__ = ["Bounds", "Domain"]

MAX_BOUND = 1e100

MAX_INTEGER = 1 << 52
"""Largest bound on integers: differences of two are exact in doubles."""


def require(values: NDArray[Any], good: NDArray[np.bool_], first: int, what: str) -> None:
    """Refuse the first value, or entry of one, that is not good; users count from ``first``."""
    if not good.all():
        row, *column = np.unravel_index(int(np.argmin(good)), good.shape)
        place = ", ".join(map(str, (first + int(row), *column)))
        lost = ", not missing" * bool(np.isnan(values[row, *column]).any())
        raise ValueError(f"x[{place}] must {what}{lost}")


class Domain(ABC):
    """A set of possible values of a user, numbers or vectors."""

    dimension: int

    @abstractmethod
    def values(self, x: ArrayLike, first: int = 0) -> NDArray[Any]:
        """Return users' values, (k,) or (k, dimension), checked and in the data's units.

        Arrays of a suitable type are not copied. Messages count users from ``first``.
        """

    @abstractmethod
    def value(self, x: ArrayLike) -> NDArray[Any]:
        """Return one user's value, checked, as an array of one."""


@dataclass(frozen=True)
class Bounds(Domain):
    """A public interval that contains every value; it must not be taken from the data.

    Its ends are within 1e100, and at least 1e-100 apart.
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        low = float(number("lower", self.lower, low=-MAX_BOUND, high=MAX_BOUND))
        high = float(number("upper", self.upper, low=-MAX_BOUND, high=MAX_BOUND))
        if not low < high:
            raise ValueError(f"upper must be greater than lower = {low!r}, got {high!r}")
        if high - low < 1 / MAX_BOUND:
            raise ValueError(f"upper - lower must be at least 1e-100, got {high!r} and {low!r}")
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """One."""
        return 1

    @property
    def width(self) -> float:
        """``upper - lower``."""
        return self.upper - self.lower

    def value(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return one user's value, checked, as an array of one."""
        return self.values([x])  # type: ignore[arg-type]

    def whole_steps(self, precision: object = None) -> int:
        """Return ``upper - lower``, the precision at which integers are encoded exactly.

        The bounds must be integers up to 2^52, and ``precision`` must be their difference or None.
        """
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if not bound.is_integer() or abs(bound) > MAX_INTEGER:
                said = "must be an integer of at most 2^52 with integers=True"
                raise ValueError(f"{name} {said}, got {bound!r}")
        steps = int(self.upper) - int(self.lower)
        if precision is not None and precision != steps:
            raise ValueError(
                f"precision must be upper - lower = {steps} with integers=True, got {precision!r}"
            )
        return steps

    def values(self, x: ArrayLike, first: int = 0) -> NDArray[np.float64]:
        """Return values, (k,), as doubles, checked and in the data's units.

        Booleans are 0 and 1; NaN is outside. A data frame may have one column.
        """
        given = real("x", x, first)
        if given.ndim != 1:
            given = vector("x", x, given)
        values = given.astype(np.float64, copy=False)
        if values.size and not (  # NaN if there is one, and NaN fails every comparison
            np.minimum.reduce(values) >= self.lower and np.maximum.reduce(values) <= self.upper
        ):
            inside = (values >= self.lower) & (values <= self.upper)
            require(values, inside, first, f"be in [{self.lower:g}, {self.upper:g}]")
        return values

    @np.errstate(under="ignore")
    def unit(
        self, values: NDArray[np.float64], out: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return checked values as fractions, in [0, 1], of the way from ``lower`` to ``upper``.

        They are written to ``out`` if it is given, except that values between bounds of 0 and 1 are
        returned as they are.
        """
        if out is not None and self.lower == 0 and self.upper == 1:
            return values
        distance = np.subtract(values, self.lower, out=out)
        return np.divide(distance, self.upper - self.lower, out=distance)

    def total(self, parts: Fraction | float, users: int) -> float:
        """Return the sum over ``users`` in the data's units, from the sum of their fractions."""
        span = Fraction(self.upper) - Fraction(self.lower)
        return float(users * Fraction(self.lower) + span * Fraction(parts))

    def totals(self, steps: list[int], precision: int, users: int) -> list[float]:
        """Return the same for many sums of fractions, each of so many steps of 1 / precision."""
        least = users * Fraction(self.lower)
        step = (Fraction(self.upper) - Fraction(self.lower)) / precision
        over = math.lcm(least.denominator, step.denominator)
        a, b = int(least * over), int(step * over)
        return [(a + b * z) / over for z in steps]  # each division is rounded once


def whole(values: NDArray[np.float64], first: int = 0) -> NDArray[np.float64]:
    """Return values; refuse the first that is not an integer."""
    require(values, values == np.floor(values), first, "be an integer")
    return values
