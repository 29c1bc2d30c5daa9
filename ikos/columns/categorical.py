"""Histograms of categorical columns."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._labels import checked_labels, places_among
from ikos._options import VectorSumOptions, check_passed_on
from ikos._validation import quote
from ikos.aggregation.private_vector_sum import PrivateVectorSum
from ikos.categories import Categories
from ikos.randomness import RandomSource
from ikos.results import Guarantee, Printed, SumResult, at_least, footer


@dataclass(frozen=True, eq=False)
class Histograms(Printed):
    """Private counts of the categories of several columns.

    Attributes
    ----------
    categories : mapping
        Column to its categories.
    private : SumResult
        The private sum behind them, of one coordinate for each category.
    """

    categories: Mapping[Hashable, tuple[Hashable, ...]]
    private: SumResult

    @property
    def guarantee(self) -> Guarantee:
        """For all columns together."""
        return self.private.guarantee

    def estimates(self) -> dict[Hashable, dict[Hashable, float]]:
        """Return column to category to estimated count. Not clipped: small ones can be negative."""
        return self._told(self.private.estimate)

    def intervals(
        self, confidence: float = 0.95, *, simultaneous: bool = False
    ) -> dict[Hashable, dict[Hashable, tuple[float, float]]]:
        """Return column to category to interval, as of `SumResult.interval`."""
        band = self.private.interval(confidence, simultaneous=simultaneous)
        low, high = self._told(band.low), self._told(band.high)
        return {
            column: {label: (low[column][label], high[column][label]) for label in labels}
            for column, labels in self.categories.items()
        }

    def _told(self, values: NDArray[np.float64]) -> dict[Hashable, dict[Hashable, float]]:
        runs = Categories([len(labels) for labels in self.categories.values()]).runs
        return {
            column: dict(zip(labels, values[run].tolist(), strict=True))
            for (column, labels), run in zip(self.categories.items(), runs, strict=True)
        }

    def __str__(self) -> str:
        lines: list[str] = []
        for column, counts in self.estimates().items():
            shown = ", ".join(f"{label}: {count:.0f}" for label, count in list(counts.items())[:8])
            more = f", ... {len(counts):,} in all" if len(counts) > 8 else ""
            lines.append(f"{column}: {shown}{more}")
        each = math.sqrt(self.private.error.coordinate.mean_square)
        lines.append(f"error     {at_least(each, 4)} for each count (root mean square, at most)")
        private = self.private
        return "\n".join((*lines, *footer(private.guarantee, str(private.cost), private.users)))


def histograms(
    columns: Mapping[Hashable, ArrayLike],
    categories: Mapping[Hashable, Sequence[Hashable]],
    *,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Unpack[VectorSumOptions],
) -> Histograms:
    """Release how many users fall into each category of each column.

    One private sum of vectors with a one in each column's run. The replacement of one user moves it
    by at most 2 in l1 norm for each column, however many categories there are.

    Parameters
    ----------
    columns : mapping
        Name to everybody's values, (n,) array_like each, in the same order of users: also a data
        frame, or whatever else has ``keys()`` and is indexed by them.
    categories : mapping
        Name to the categories: public and distinct, fixed without looking at the data. The same
        names as of ``columns``.
    epsilon, delta : float
        The guarantee of the release, for all columns together.
    rng : RandomSource, optional
        Secure randomness by default.
    **options
        For `PrivateVectorSum`.

    Raises
    ------
    TypeError
        If ``columns`` or ``categories`` is no mapping, or categories are no sequence (a set has no
        order), text, or not hashable.
    ValueError
        If a value is not among its categories, these are empty or repeat, or names or lengths
        differ.

    Examples
    --------
    >>> answers = {"vote": ["yes", "no", "yes"] * 2000, "age": [1, 2, 2] * 2000}
    >>> result = histograms(
    ...     answers, {"vote": ["yes", "no"], "age": [1, 2, 3]}, epsilon=1, delta=1e-6
    ... )
    >>> counts = result.estimates()
    >>> bool(abs(counts["vote"]["yes"] - 4000) < 200), bool(abs(counts["age"][3]) < 200)
    (True, True)
    """
    own = {"sensitivity": "it follows from the categories", "integers": "counts are integers"}
    check_passed_on("histograms", options, VectorSumOptions, own)
    names = _names("columns", columns, "values")
    given = _names("categories", categories, "categories")
    if not names or set(names) != set(given):
        raise ValueError(
            f"categories must have the names of the columns {quote(names)}, got {quote(given)}"
        )
    labels = {name: checked_labels(f"categories[{name!r}]", categories[name]) for name in names}
    domain = Categories([len(own) for own in labels.values()])
    cells = {
        name: places_among(labels[name], f"columns[{name!r}]", columns[name]) for name in names
    }
    users = next(iter(cells.values())).size
    for name, cell in cells.items():
        if cell.size != users:
            raise ValueError(
                f"columns[{name!r}] must hold {users} values, as the first, got {cell.size}"
            )
    x = np.zeros((users, domain.dimension), dtype=np.uint8)
    for cell, run in zip(cells.values(), domain.runs, strict=True):
        x[np.arange(users), run.start + cell] = 1
    private = PrivateVectorSum(users, domain, epsilon, delta, **options).run(x, rng)
    return Histograms(labels, private)


def _names(parameter: str, given: Any, what: str) -> list[Hashable]:
    """Return the keys of a mapping, or of what is used as one, such as a data frame."""
    if not (callable(getattr(given, "keys", None)) and hasattr(given, "__getitem__")):
        raise TypeError(f"{parameter} must map names to {what}, got {type(given).__name__}")
    return list(given.keys())
