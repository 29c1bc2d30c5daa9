"""Histograms of categorical columns, and the projection of estimates onto possible frequencies."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import (
    InvalidType,
    InvalidValue,
    doubles,
    integer,
    number,
    quote,
)
from ikos.baselines.frequency_estimation_lwy22 import FrequencyEstimation
from ikos.data.domains import Categories
from ikos.numeric.search import bisect_integers
from ikos.primitives.randomness import RandomSource
from ikos.results.sums import SumResult, at_least
from ikos.results.tables import EstimateTable, Results, label_text
from ikos.results.text import grouped
from ikos.statistics.labels import (
    NO_GROUP,
    UsersGroups,
    labels_of,
    named_columns,
    places_in_groups,
    places_of,
    without_groups,
)
from ikos.statistics.release import (
    Release,
    Run,
    SumOptions,
    VectorSumOptions,
    check_options,
    private_sum_of,
)
from ikos.sums.ledger import Ledger
from ikos.sums.private import PrivateVectorSum

HistogramProtocol = PrivateVectorSum | FrequencyEstimation


@dataclass(frozen=True, eq=False)
class Histogram(Release):
    """Private counts of the categories of one column."""

    categories: Any

    def estimates(self) -> dict[Hashable, Any]:
        """Map each category to its estimated count; unclipped, so it can be negative."""
        return self._by_label(self.private.estimate.tolist())

    def intervals(
        self, confidence: float = 0.95, *, simultaneous: bool = False
    ) -> dict[Hashable, Any]:
        """Map each category to its interval, a pair, as `SumResult.interval`."""
        band = self.private.interval(confidence, simultaneous=simultaneous)
        return self._by_label(list(zip(band.low.tolist(), band.high.tolist(), strict=True)))

    def _by_label(self, values: list[Any]) -> dict[Hashable, Any]:
        return dict(zip(self.categories, values, strict=True))

    def _table(self) -> EstimateTable:
        counts = {"count": (self.private.estimate, self.private.interval())}
        return EstimateTable(("category",), [(label,) for label in self.categories], counts)

    def _lines(self) -> list[str]:
        each = grouped(at_least(math.sqrt(self.private.error.coordinate.mean_square), 4))
        return [*self._listed(), f"error     {each} for each count (root mean square, at most)"]

    def _listed(self) -> list[str]:
        return [_some(self.estimates())]


@dataclass(frozen=True, eq=False)
class Histograms(Histogram):
    """Private counts of several columns: a `Histogram` that maps columns to such mappings."""

    def _by_label(self, values: list[Any]) -> dict[Hashable, Any]:
        rest = iter(values)
        return {
            column: {label: next(rest) for label in labels}
            for column, labels in self.categories.items()
        }

    def _table(self) -> EstimateTable:
        labels = [(column, one) for column, some in self.categories.items() for one in some]
        return replace(super()._table(), names=("column", "category"), labels=labels, units=1)

    def _listed(self) -> list[str]:
        return [f"{column}: {_some(counts)}" for column, counts in self.estimates().items()]


def _some(counts: Mapping[Hashable, float]) -> str:
    first = islice(counts.items(), 8)
    some = ", ".join(f"{label_text(label)}: {count:.0f}" for label, count in first)
    return some + f", ... {len(counts):,} in all" * (len(counts) > 8)


def histogram(
    x: ArrayLike,
    categories: Sequence[Hashable],
    *,
    epsilon: float | Fraction,
    delta: float | Fraction,
    other: Hashable = None,
    missing: Hashable = "refuse",
    by: Any = None,
    groups: Any = None,
    max_error: float | None = None,
    max_bytes: float | None = None,
    rng: RandomSource | None = None,
    ledger: Ledger | None = None,
    **options: Unpack[SumOptions],
) -> Any:
    """Release the number of users in each of the given categories, of all users or by groups.

    Each category gets a private sum; with ``max_error`` or ``max_bytes``, the protocol is the first
    of `histogram_protocols`. The noise does not depend on the number of categories and groups.

    Parameters
    ----------
    x : (n,) array_like
        One value per user, which equals a category as a Python object: in a list, 1 differs from
        ``"1"``.
    categories : sequence of hashable
        Distinct, public, and chosen without looking at the data.
    other : hashable, optional
        One more category, of all other values.
    missing : "refuse", "exclude" or hashable
        What happens to missing values: an error; one more category, None, is theirs; or the
        category that stands for each. With ``by``, "exclude" also leaves out users without a label.
    epsilon, delta, by, groups, rng, ledger
        As for `ikos.statistics.mean`.
    max_error, max_bytes : float, optional
        As for `histogram_protocols`.
    **options
        For `PrivateVectorSum`.

    Returns
    -------
    Histogram, or with ``by`` a dict of labels to Histogram
        The dict is also one table (`ikos.results.tables.Results`).

    Examples
    --------
    >>> answers = ["yes", "no", "yes"] * 2000
    >>> result = histogram(answers, ["yes", "no", "unknown"], epsilon=1, delta=1e-6)
    >>> bool(abs(result.estimates()["yes"] - 4000) < 100)
    True
    """
    limited = max_error is not None or max_bytes is not None
    check_options("histogram", options, SumOptions if limited else VectorSumOptions)
    alone, excluded = without_groups(by, groups, None), missing == "exclude"
    labels, cells = _placed("categories", categories, "x", x, missing, other)
    users = (
        UsersGroups.one(cells.size)
        if alone
        else places_in_groups(by, groups, None, cells.size, excluded)
    )
    size, counted = len(labels), len(labels) * len(users.groups)
    cells = np.where(users.places == NO_GROUP, counted, users.places * size + cells)
    counted += excluded and not alone  # one more place, for users without a label
    private = None
    if limited:
        best, *_ = histogram_protocols(
            cells.size, counted, epsilon=epsilon, delta=delta,
            max_error=max_error, max_bytes=max_bytes, **options,
        )  # fmt: skip
        if isinstance(best, FrequencyEstimation):
            private = best.run(cells, rng, ledger=ledger)
    if private is None:
        private = _counted([counted], [cells], (epsilon, delta, rng, ledger, options))
    if alone:
        return Histogram(private, labels)
    parts = [private.estimate[size * place :][:size] for place in range(len(users.groups))]
    results = [Histogram(replace(private, estimate=part), labels) for part in parts]
    return Results(users.by, zip(users.groups, results, strict=True))


def _placed(
    name: str,
    categories: Sequence[Hashable],
    values: str,
    x: ArrayLike,
    missing: Hashable,
    other: Hashable = None,
) -> tuple[tuple[Hashable, ...], NDArray[np.int64]]:
    """Return all categories, and each user's place among them.

    Errors call the categories ``name`` and the ``values`` so.
    """
    labels = labels_of(name, categories)
    if other is not None and other in labels:
        raise InvalidValue("other", f"must not be one of the categories, got {quote(other)}")
    if None in labels and missing is not None and missing != "refuse":
        what = "must not hold None, which is missing, unless it stands for all missing values"
        raise InvalidValue(name, what)
    extra = (other,) * (other is not None) + (None,) * (missing == "exclude")
    cells = places_of(labels, values, x, other=other is not None, excluded=missing != "refuse")
    labels += extra
    if missing != "refuse":
        known = None if missing == "exclude" else missing
        if known not in labels:
            what = 'must be "refuse", "exclude" or one of the categories'
            raise InvalidValue("missing", f"{what}, got {quote(missing)}")
        cells[cells == NO_GROUP] = labels.index(known)
    return labels, cells


def histogram_protocols(
    n: int,
    categories: int,
    *,
    epsilon: float | Fraction,
    delta: float | Fraction,
    max_error: float | None = None,
    max_bytes: float | None = None,
    **options: Unpack[SumOptions],
) -> list[HistogramProtocol]:
    """Return candidate protocols for a histogram, the best within the given limit first.

    These are one private sum for each category, and `ikos.baselines.FrequencyEstimation`, which
    sends few messages: with one category per message, and with sets of categories of the best size
    found. The latter two have a single shuffler, and so are left out if ``corrupt_shufflers`` is
    positive or if the private sums are to have another ``transport`` than shares.

    Parameters
    ----------
    n, categories : int
        Number of users, and of categories.
    epsilon, delta : float
        The guarantee of the whole histogram.
    max_error : float, optional
        Limit on the bound on the root mean squared error of each count; the protocol with the
        fewest bytes comes first.
    max_bytes : float, optional
        Limit on the mean bytes per user; the protocol with the smallest error comes first. Give
        this or ``max_error``. ValueError if no protocol is within the limit.
    **options
        For the private sums; ``min_honest`` for all.

    Examples
    --------
    >>> for limit in {"max_error": 3}, {"max_error": 20}, {"max_bytes": 100}:
    ...     best, *_ = histogram_protocols(10**4, 1000, epsilon=1, delta=1e-8, **limit)
    ...     print(type(best).__name__, math.ceil(best.cost().bits_per_user / 8))
    PrivateVectorSum 7000
    FrequencyEstimation 3
    FrequencyEstimation 10
    """
    if (max_error is None) == (max_bytes is None):
        raise ValueError(
            f"give either max_error or max_bytes, got {quote(max_error)} and {quote(max_bytes)}"
        )
    limited, name, limit = (
        (0, "max_error", max_error) if max_bytes is None else (1, "max_bytes", max_bytes)
    )
    check_options("histogram_protocols", options, SumOptions)
    most = number(name, limit, above=0)
    domain = Categories([integer("categories", categories, low=1)])
    sums = PrivateVectorSum(n, domain, epsilon, delta, **options)

    def few(size: int) -> FrequencyEstimation:
        honest = sums.min_honest
        return FrequencyEstimation(n, domain, epsilon, delta, set_size=size, min_honest=honest)

    def keeps(size: int) -> bool:
        with suppress(ValueError):
            return _measures(few(size))[limited] <= most
        return limited == 0  # too many messages: sets must be larger, as they must for fewer bytes

    protocols: list[HistogramProtocol] = [sums]
    if not options.get("corrupt_shufflers") and sums.transport.name == "shares":
        # Larger sets have a larger error and, beyond one category, fewer bytes.
        largest = max(1, categories // 2)
        good, bad = (largest, 0) if limited else (1, largest + 1)
        for size in {1, bisect_integers(keeps, good, bad)}:
            with suppress(ValueError):
                protocols.append(few(size))
    measured = {protocol: _measures(protocol) for protocol in protocols}
    protocols.sort(key=lambda p: (measured[p][limited] > most, measured[p][1 - limited]))
    if measured[protocols[0]][limited] > most:
        least = at_least(min(measures[limited] for measures in measured.values()), 4)
        raise InvalidValue(name, f"must be larger, got {quote(limit)}; {least} is possible")
    return protocols


def _measures(protocol: HistogramProtocol) -> tuple[float, float]:
    """Return the bound on the root mean squared error of a count, and the mean bytes per user."""
    square = protocol.error(protocol.n).coordinate.mean_square
    return math.sqrt(square), protocol.cost().bits_per_user / 8


def histograms(
    columns: Mapping[Hashable, ArrayLike],
    categories: Mapping[Hashable, Sequence[Hashable]],
    *,
    epsilon: float | Fraction,
    delta: float | Fraction,
    missing: Hashable = "refuse",
    rng: RandomSource | None = None,
    ledger: Ledger | None = None,
    **options: Unpack[VectorSumOptions],
) -> Histograms:
    """Release the number of users in each category of each column.

    One private sum adds up vectors with a one in each column's run. Replacing one user moves it by
    at most 2 in l1 norm per column, whatever the number of categories.

    Both mappings have the columns' names as keys: ``columns`` holds the values of all users in the
    same order (a data frame will do), ``categories`` those of each column. The rest is as for
    `ikos.statistics.histogram` and `means`; ``missing`` is for all columns.

    Examples
    --------
    >>> answers = {"vote": ["yes", "no", "yes"] * 2000, "age": [1, 2, 2] * 2000}
    >>> categories = {"vote": ["yes", "no"], "age": [1, 2, 3]}
    >>> result = histograms(answers, categories, epsilon=1, delta=1e-6)
    >>> bool(abs(result.estimates()["vote"]["yes"] - 4000) < 200)
    True
    """
    check_options("histograms", options, VectorSumOptions)
    named = named_columns(columns)
    if named is None:
        raise InvalidType(
            "columns", f"must be a mapping or a data frame, got {type(columns).__name__}"
        )
    names = list(named)
    if not names or set(names) != set(categories):
        raise InvalidValue(
            "categories",
            f"must have the names of the columns {quote(names)}, got {quote(list(categories))}",
        )
    placed = {
        name: _placed(f"categories[{name!r}]", categories[name], f"columns[{name!r}]", x, missing)
        for name, x in named.items()
    }
    labels = {name: some for name, (some, _) in placed.items()}
    cells = {name: places for name, (_, places) in placed.items()}
    users = next(iter(cells.values())).size
    for name, cell in cells.items():
        if cell.size != users:
            raise InvalidValue(
                f"columns[{name!r}]", f"must hold {users} values, as the first, got {cell.size}"
            )
    run = (epsilon, delta, rng, ledger, options)
    return Histograms(_counted(list(map(len, labels.values())), cells.values(), run), labels)


def _counted(sizes: Sequence[int], cells: Collection[NDArray[np.int64]], run: Run) -> SumResult:
    """Return the private sum of vectors with a one in the cell of each column."""
    domain = Categories(sizes)
    users = next(iter(cells)).size
    x = np.zeros((users, domain.dimension), dtype=np.uint8)
    for cell, part in zip(cells, domain.runs, strict=True):
        x[np.arange(users), part.start + cell] = 1
    return private_sum_of(x, domain, run)


def projected_frequencies(frequencies: ArrayLike, sparsity: int) -> NDArray[np.float64]:
    """Return the nearest possible frequencies of 2d events (WLQDLY21, Section 6.1).

    It needs no data and costs no privacy, but the result is biased.

    Parameters
    ----------
    frequencies : (d, 2) array_like of float
        Estimates, such as `KeyValueResult.frequencies`.
    sparsity : int
        Events per user, s, from 1 to d: the frequencies over s are in the simplex.

    Examples
    --------
    >>> projected_frequencies([[0.9, -0.1], [1.3, 0.2]], 2).round(6).tolist()
    [[0.766667, 0.0], [1.166667, 0.066667]]
    """
    values = _finite("frequencies", frequencies)
    if values.ndim != 2 or values.shape[1] != 2 or not values.size:
        raise InvalidValue("frequencies", f"must have shape (d, 2), got {values.shape}")
    s = integer("sparsity", sparsity, low=1, high=values.shape[0])
    return s * project_simplex(values.reshape(-1) / s).reshape(values.shape)


def _finite(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return finite doubles."""
    found = doubles(name, values)
    if (wrong := ~np.isfinite(found)).any():
        raise InvalidValue(name, f"must be finite, got {float(found[wrong][0])!r}")
    return found


def _errors(frequencies: ArrayLike, truth: ArrayLike) -> NDArray[np.float64]:
    """Return the absolute errors of estimates."""
    values, true = _finite("frequencies", frequencies), _finite("truth", truth)
    if values.shape != true.shape:
        raise InvalidValue("frequencies", f"must have shape {true.shape}, got {values.shape}")
    return np.asarray(np.abs(values - true))


def total_variation_error(frequencies: ArrayLike, truth: ArrayLike) -> float:
    """Return the sum of the absolute errors of frequencies (TVE in WLQDLY21, Section 6.1).

    Twice the total variation distance, if both add up to 1.

    Parameters
    ----------
    frequencies : array_like of float
        Estimates of any shape, such as (d, 2) from `KeyValueResult.frequencies` or
        `projected_frequencies`, or (d,) of a histogram.
    truth : array_like of float
        The true ones, of the same shape.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1, 0], [1, -1], [0, -1], [1, 0]])  # four users, d = 2
    >>> truth = np.stack([(x == 1).mean(axis=0), (x == -1).mean(axis=0)], axis=1)
    >>> total_variation_error([[0.5, 0.0], [0.0, 0.75]], truth)
    0.5
    """
    return float(_errors(frequencies, truth).sum())


def maximum_absolute_error(frequencies: ArrayLike, truth: ArrayLike) -> float:
    """Return the largest absolute error of frequencies (MAE in WLQDLY21, Section 6.1).

    Parameters
    ----------
    frequencies, truth
        As for `total_variation_error`.

    Examples
    --------
    >>> maximum_absolute_error([[0.5, 0.0], [0.0, 0.75]], [[0.75, 0.0], [0.0, 0.5]])
    0.25
    """
    return float(_errors(frequencies, truth).max())


def project_simplex(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest vector whose coordinates are at least 0 and add up to 1.

    By Wang and Carreira-Perpinan, *Projection onto the probability simplex*, 2013, one number,
    which follows from the largest coordinates, is subtracted from all, and what is below 0 cut off.
    """
    # Shifting all values changes nothing: around the largest, nothing cancels. Values further below
    # it than 1 become 0.
    with np.errstate(over="ignore"):
        values = np.maximum(y - y.max(), -2.0)
    falling = -np.sort(-values)
    excess = (np.cumsum(falling) - 1) / np.arange(1, y.size + 1)
    # the largest stay positive while they exceed the number subtracted
    return np.asarray(np.maximum(values - excess[np.count_nonzero(falling > excess) - 1], 0.0))
