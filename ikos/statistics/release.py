"""What all releases of statistics share: options, results, private sums, columns of values."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import InvalidValue, choice, number, quote, real, vector
from ikos.data.domains import Bounds, Domain, IntegerBounds
from ikos.data.sensitivity import Sensitivity
from ikos.primitives.randomness import RandomSource
from ikos.results.guarantees import Guarantee
from ikos.results.sums import SumResult
from ikos.results.tables import Tabular
from ikos.sums.ledger import Ledger
from ikos.sums.private import PrivateVectorSum
from ikos.transports import Recipe


class SumOptions(TypedDict, total=False):
    """Options of `ikos.PrivateSum` that apply to any values."""

    precision: int | None
    modulus: int | None
    messages: int | None
    analysis: str
    shuffler: str
    clear_share: bool
    min_honest: int | None
    corrupt_shufflers: int
    reserve: float | Fraction | str
    transport: str | Recipe | None


class MeanOptions(SumOptions, total=False):
    """Options of `ikos.PrivateSum` that apply to values within bounds."""

    integers: bool


class VectorSumOptions(SumOptions, total=False):
    """Options of `ikos.PrivateVectorSum` that apply to columns."""

    layout: str | int
    overhead: int
    releases: int


class GroupOptions(VectorSumOptions, total=False):
    """Options of `ikos.PrivateVectorSum` that apply to values within bounds, as integers or not."""

    integers: bool


Run = tuple[float | Fraction, float | Fraction, RandomSource | None, Ledger | None, SumOptions]
"""Epsilon, delta, the randomness, the ledger and the protocol's options of one release."""


@dataclass(frozen=True, eq=False)
class Release(Tabular):
    """Results computed from one private sum of vectors."""

    private: SumResult

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for the whole release."""
        return self.private.guarantee

    @property
    def users(self) -> int:
        """Number of users who took part; public."""
        return self.private.users

    @property
    def _sum(self) -> SumResult:
        return self.private

    @abstractmethod
    def _lines(self) -> list[str]:
        """Return the lines above the guarantee in the printed result."""

    def __str__(self) -> str:
        return "\n".join((*self._lines(), *self.private._end()))


def first_lines(lines: Iterable[str], number: int) -> list[str]:
    """Return the first eight of a number of lines, and how many there are in all."""
    more = [f"... {number:,} in all"] if number > 8 else []
    return [*islice(lines, 8), *more]


def check_options(name: str, options: Mapping[str, Any], taken: type[SumOptions]) -> None:
    """Refuse options unknown to the function that was called, before its protocol does.

    A sensitivity in the columns' own units would be taken for one of scaled values, and too little
    noise added.
    """
    if unknown := options.keys() - taken.__annotations__.keys():
        raise TypeError(f"{name}() got an unexpected keyword argument {min(unknown)!r}")


def private_sum_of(
    x: NDArray[Any],
    domain: Domain,
    run: Run,
    sensitivity: Sensitivity | None = None,
    *,
    integers: bool = False,
) -> SumResult:
    """Return the private sum of vectors whose sensitivity this module computed."""
    epsilon, delta, rng, ledger, options = run
    protocol = PrivateVectorSum(
        x.shape[0], domain, epsilon, delta, sensitivity=sensitivity, integers=integers, **options
    )
    return protocol.run(x, rng, ledger=ledger)


def one_column(x: ArrayLike, read: Callable[..., NDArray[Any]] = real) -> NDArray[Any]:
    """Return one value per user, of at least one user."""
    values = vector("x", x, read("x", x))
    if not values.size:
        raise InvalidValue("x", "must hold at least one user's value, got none")
    return values


def with_gaps(name: str, x: ArrayLike) -> NDArray[Any]:
    """Return an array of real numbers, in which missing and masked ones are NaN."""
    if isinstance(x, np.ma.MaskedArray):
        return np.ma.filled(x.astype(np.float64), math.nan)
    return real(name, x)


def filled(values: NDArray[Any], missing: str | float, bounds: Bounds) -> NDArray[np.float64]:
    """Return checked values with those that are missing replaced, or NaN if they are excluded."""
    if isinstance(missing, str):
        choice("missing", missing, ("refuse", "exclude"))
        if missing == "refuse":
            return bounds.values(values)
        fill, numbers = math.nan, values.astype(np.float64)
    else:
        fill = float(number("missing", missing, low=bounds.lower, high=bounds.upper))
        if isinstance(bounds, IntegerBounds) and not fill.is_integer():
            raise InvalidValue("missing", f"must be an integer, got {quote(missing)}")
        numbers = values.astype(np.float64)
    gaps = np.isnan(numbers)
    bounds.values(np.where(gaps, bounds.lower, numbers))
    numbers[gaps] = fill
    return numbers if isinstance(missing, str) else bounds.values(numbers)
