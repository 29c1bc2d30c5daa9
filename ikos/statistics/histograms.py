"""Histograms of one categorical column or several."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._options import SumOptions, VectorSumOptions
from ikos._validation import array, quote, reject_masked
from ikos.aggregation.private_sum import PrivateVectorSum
from ikos.domains import Categories
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
        return self._by_label(self.private.estimate)

    def intervals(
        self, confidence: float = 0.95, *, simultaneous: bool = False
    ) -> dict[Hashable, dict[Hashable, tuple[float, float]]]:
        """Return column to category to interval, like `SumResult.interval`."""
        band = self.private.interval(confidence, simultaneous=simultaneous)
        low, high = self._by_label(band.low), self._by_label(band.high)
        return {
            column: {label: (low[column][label], high[column][label]) for label in labels}
            for column, labels in self.categories.items()
        }

    def _by_label(self, values: NDArray[np.float64]) -> dict[Hashable, dict[Hashable, float]]:
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
        Name to the values of all users, (n,) array_like each, in the same order of users. A data
        frame, or anything else with ``keys()`` that is indexed by them, will do.
    categories : mapping
        Name to the categories: public and distinct, fixed without looking at the data. The same
        names as of ``columns``.
    epsilon, delta : float
        The guarantee of the release, for all columns together.
    rng : RandomSource, optional
        Secure randomness by default.
    **options
        For `PrivateVectorSum`, but for ``sensitivity`` and ``integers``, which follow from the
        categories.

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
    names = _names("columns", columns, "values")
    given = _names("categories", categories, "categories")
    if not names or set(names) != set(given):
        raise ValueError(
            f"categories must have the names of the columns {quote(names)}, got {quote(given)}"
        )
    labels = {name: _labels(f"categories[{name!r}]", categories[name]) for name in names}
    cells = {name: _places(labels[name], f"columns[{name!r}]", columns[name]) for name in names}
    users = next(iter(cells.values())).size
    for name, cell in cells.items():
        if cell.size != users:
            raise ValueError(
                f"columns[{name!r}] must hold {users} values, as the first, got {cell.size}"
            )
    return _release(labels, cells, users, epsilon, delta, rng, options)


def _release(
    labels: Mapping[Hashable, tuple[Hashable, ...]],
    cells: Mapping[Hashable, NDArray[np.int64]],
    users: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None,
    options: SumOptions,
) -> Histograms:
    """Return the private sum of vectors with a one for the cell of each column."""
    domain = Categories([len(own) for own in labels.values()])
    x = np.zeros((users, domain.dimension), dtype=np.uint8)
    for cell, run in zip(cells.values(), domain.runs, strict=True):
        x[np.arange(users), run.start + cell] = 1
    protocol = PrivateVectorSum(
        users, domain, epsilon, delta, sensitivity=None, integers=False, **options
    )
    return Histograms(labels, protocol.run(x, rng))


@dataclass(frozen=True, eq=False)
class Histogram(Printed):
    """Private counts of the categories of one column.

    Attributes
    ----------
    columns : Histograms
        The release behind it, of one column.
    """

    columns: Histograms

    @property
    def guarantee(self) -> Guarantee:
        """For the whole histogram."""
        return self.columns.guarantee

    def estimates(self) -> dict[Hashable, float]:
        """Return category to estimated count. Not clipped: small counts can come out negative."""
        return self.columns.estimates()["x"]

    def intervals(
        self, confidence: float = 0.95, *, simultaneous: bool = False
    ) -> dict[Hashable, tuple[float, float]]:
        """Return category to interval, like `SumResult.interval`."""
        return self.columns.intervals(confidence, simultaneous=simultaneous)["x"]

    def __str__(self) -> str:
        return str(self.columns).removeprefix("x: ")


def histogram(
    x: ArrayLike,
    categories: Sequence[Hashable],
    *,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Unpack[SumOptions],
) -> Histogram:
    """Release how many users fall into each of the given categories.

    Parameters
    ----------
    x : (n,) array_like
        One value per user, each equal to one of the categories, as Python objects: in a list, 1 is
        different from ``"1"``.
    categories : sequence
        Public and distinct, fixed without looking at the data.
    epsilon, delta, rng, **options
        As for `mean`, but for ``integers``.

    Returns
    -------
    Histogram

    Examples
    --------
    >>> answers = ["yes", "no", "yes"] * 2000
    >>> result = histogram(answers, ["yes", "no", "unknown"], epsilon=1, delta=1e-6)
    >>> {k: bool(abs(v - t) < 100) for (k, v), t in
    ...  zip(result.estimates().items(), (4000, 2000, 0))}
    {'yes': True, 'no': True, 'unknown': True}
    """
    labels = _labels("categories", categories)
    cell = _places(labels, "x", x)
    return Histogram(_release({"x": labels}, {"x": cell}, cell.size, epsilon, delta, rng, options))


def _names(parameter: str, given: Any, what: str) -> list[Hashable]:
    """Return the keys of a mapping, or of a data frame."""
    if not (callable(getattr(given, "keys", None)) and hasattr(given, "__getitem__")):
        raise TypeError(f"{parameter} must map names to {what}, got {type(given).__name__}")
    return list(given.keys())


def _labels(name: str, given: object) -> tuple[Hashable, ...]:
    """Return categories as they are: a set has no order, and text is one label."""
    if isinstance(given, (str, bytes, Set, Mapping)) or not isinstance(given, Iterable):
        kind = type(given).__name__
        raise TypeError(f"{name} must be a sequence of categories, got {kind} {quote(given)}")
    labels = tuple(given)
    for label in labels:
        if not _hashable(label):
            raise TypeError(f"{name} must be hashable, got {quote(label)}")
    if not labels or len(set(labels)) != len(labels):
        raise ValueError(f"{name} must be distinct and not empty, got {quote(given)}")
    return labels


def _places(labels: tuple[Hashable, ...], name: str, x: ArrayLike) -> NDArray[np.int64]:
    """Return the place of each value among the labels, compared as Python objects.

    An array of several kinds of objects would turn them into one kind, where two labels can become
    one. A user who counted twice would change more of the counts than the guarantee covers.
    """
    items = _items(name, x)
    places = {label: place for place, label in enumerate(labels)}
    try:
        found = np.array([places.get(item, -1) for item in items], dtype=np.int64)
    except TypeError:  # what has no hash is no category
        first = next(place for place, item in enumerate(items) if not _hashable(item))
    else:
        if (found >= 0).all():
            return found
        first = int(np.argmax(found < 0))
    raise ValueError(
        f"{name}[{first}] must be one of the categories, got another {type(items[first]).__name__}"
    )


def _items(name: str, x: ArrayLike) -> list[Any]:
    """Return values as Python objects; those of a list as they are."""
    if hasattr(x, "__array__"):
        values = array(name, x)
    else:
        values = np.asarray(reject_masked(name, x), dtype=object)
    if values.ndim != 1 or not values.size:
        raise ValueError(f"{name} must be one-dimensional and not empty, got shape {values.shape}")
    # but for dates and times, which tolist() would turn into other types
    return list(values) if values.dtype.kind in "mM" else values.tolist()


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
