"""What the samplers take and give back: rates, sizes, and integers of any length."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import integer, number

Real = int | float | Fraction

INT64_MAX = (1 << 63) - 1

MAX_DRAWS = 1 << 40
"""Most draws of one call."""


def positive(name: str, value: object) -> Fraction:
    """Check and return a rate or a variance."""
    return number(name, value, above=0)


def how_many(size: object) -> int:
    """Check and return how many draws are asked for."""
    return 1 if size is None else integer("size", size, low=0, high=MAX_DRAWS)


def deliver(draws: NDArray[Any], size: object) -> int | NDArray[Any]:
    """Return one draw as a Python int for ``size=None``, or the array in its smallest dtype."""
    return int(draws[0]) if size is None else shortened(draws)


def shortened(draws: NDArray[Any]) -> NDArray[Any]:
    """Return draws as int64 where all of them fit."""
    if draws.dtype == object and all(abs(int(value)) <= INT64_MAX for value in draws):
        return draws.astype(np.int64)
    return draws


def plus(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return a + b without overflow: as object arrays where int64 might not do."""
    if largest(a) + largest(b) > INT64_MAX:
        return np.asarray(a.astype(object) + b.astype(object))
    return np.asarray(a + b)


def largest(values: NDArray[Any]) -> int:
    """Return the largest absolute value; 0 of none."""
    return max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))
