"""Medians and other quantiles, from a tree of private counts over public bins."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import InvalidValue, flag, integer, number, ordered, quote
from ikos.data.domains import Bounds, IntegerBounds, Portions, number_bounds
from ikos.numeric.distributions import Divisible
from ikos.primitives.randomness import RandomSource
from ikos.results.error import NoisySum
from ikos.results.intervals import Interval, shown
from ikos.results.tables import EstimateTable, Results
from ikos.statistics.labels import NO_GROUP, UsersGroups, places_in_groups, without_groups
from ikos.statistics.release import (
    GroupOptions,
    Release,
    check_options,
    filled,
    one_column,
    private_sum_of,
    with_gaps,
)
from ikos.statistics.trees import Tree, fan_outs
from ikos.sums.ledger import Ledger

QUARTILES = (0.25, 0.5, 0.75)
_CONFIDENCE = 0.95
_MOST_BINS, _FEWEST_BINS = 1024, 32
"""Bins by default: more than these cost bytes, fewer lose precision."""

_USERS_PER_BIN = 8  # times epsilon: wider intervals from fewer or more bins than this
_LARGEST_BINS = 1 << 16


@dataclass(frozen=True, eq=False)
class Quantiles(Release):
    """Private quantiles of one column, in the data's units: one for each of ``q``.

    The q-quantile of N users is the r-th smallest of their values, with r = max(1, ceil(q N)).
    ``known`` means that all users count, and otherwise only those who have a value and are in this
    ``group``, of which their number is private too.
    """

    q: tuple[float, ...]
    bounds: Bounds
    bins: int
    known: bool
    group: int = 0
    groups: int = 1

    @property
    def edges(self) -> NDArray[np.float64]:
        """The ends of the bins, (bins + 1,); integers are below the upper end of theirs."""
        return bin_edges(self.bounds, self.bins)

    @cached_property
    def _tree(self) -> Tree:
        return Tree(fan_outs(self.bins))

    @cached_property
    def _ranks(self) -> NDArray[np.float64]:
        """Estimates of the number of users up to each edge; the last is that of all."""
        steps = np.split(self.private.estimate, np.cumsum(self._tree.sizes)[:-1] * self.groups)
        counts = [level.reshape(self.groups, -1)[self.group] for level in steps]
        users = float(self.users) if self.known else None
        leaves = self._tree.leaves(np.concatenate(counts), users)
        ranks: NDArray[np.float64] = np.cumsum(leaves)
        return np.concatenate(([0.0], ranks[: self.bins - 1], [users or ranks[-1]]))

    @cached_property
    def _fitted(self) -> NDArray[np.float64]:
        """The same as a distribution: not falling, from 0 to the number of users."""
        from scipy import optimize

        inner = optimize.isotonic_regression(self._ranks[1:-1]).x
        most = max(float(self._ranks[-1]), 0.0)
        return np.clip(np.concatenate(([0.0], inner, [most])), 0.0, most)

    @property
    def estimate(self) -> NDArray[np.float64]:
        """The estimated quantiles, each within its 95 % interval; NaN if that excludes nothing."""
        band, fitted = self.interval(), self._fitted
        bounds = self.bounds.lower, self.bounds.upper
        return np.array(
            [
                math.nan if (low, high) == bounds else min(max(self._at(q, fitted), low), high)
                for q, low, high in zip(self.q, band.low, band.high, strict=True)
            ]
        )

    def _at(self, q: float, fitted: NDArray[np.float64]) -> float:
        """Return the value at which a distribution reaches a quantile."""
        wanted = _rank(q, self.users) if self.known else max(q * fitted[-1], 1e-9)
        place = min(int(np.searchsorted(fitted, wanted)), self.bins)
        first, end = self.edges[place - 1 : place + 1]
        part = (wanted - fitted[place - 1]) / max(fitted[place] - fitted[place - 1], 1e-9)
        value = first + min(float(part), 1.0) * (end - first)
        whole = isinstance(self.bounds, IntegerBounds)
        return float(min(math.floor(value), end - 1) if whole else value)

    def interval(self, confidence: float = _CONFIDENCE, *, simultaneous: bool = False) -> Interval:
        """Return an interval for each quantile, from edge to edge of bins.

        Each contains the quantile with probability at least ``confidence``, or ``simultaneous`` all
        do. A bin is left out if the ranks of its edges, with their noise, exclude that it holds the
        quantile: either fails with half the probability of a miss, in the one bin that does.
        """
        miss = float(1 - number("confidence", confidence, above=0, below=1))
        if flag("simultaneous", simultaneous):
            miss /= len(self.q)
        ends = np.array([self._accepted(q, miss) for q in self.q])
        edges = self.edges
        last = edges[ends[:, 1]] - isinstance(self.bounds, IntegerBounds)
        return Interval(edges[ends[:, 0]], last)

    def _accepted(self, q: float, miss: float) -> tuple[int, int]:
        """Return the first edge of the first bin that may hold a quantile, and the last's last."""
        left = miss - self.private.error.wrap_probability
        if left <= 0:
            return 0, self.bins
        ranks, share = self._ranks, 0.0 if self.known else q
        reach = np.zeros(self.bins + 1)
        noise = cast(Divisible, cast(NoisySum, self.private.error.coordinate).noise)
        reach[1:-1] = _reach(self._tree, noise, self.bins, share, left, self.known)
        if self.known:
            r = _rank(q, self.users)
            low, high = ranks[:-1] - reach[:-1] <= r - 1, ranks[1:] + reach[1:] >= r
        else:
            above = ranks - q * ranks[-1]
            low, high = above[:-1] - reach[:-1] < 0, above[1:] + reach[1:] >= 0
            low[0] = high[-1] = True  # of one user or more, whatever the noise
        places = np.flatnonzero(low & high)
        # by rounding of doubles alone, or by noise that is rarer than a miss
        return (int(places[0]), int(places[-1]) + 1) if places.size else (0, self.bins)

    def cdf(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the edges of the bins, and the estimated fraction of users up to each."""
        fitted = self._fitted
        return self.edges, fitted / max(fitted[-1], 1e-9)

    def _table(self) -> EstimateTable:
        labels = [(q,) for q in self.q]
        return EstimateTable(("quantile",), labels, {"value": (self.estimate, self.interval())})

    def plot(self, *quantities: str) -> Any:
        """Return a matplotlib figure of the distribution, with the quantiles' intervals."""
        from ikos.plots.estimates import quantiles_figure

        if quantities:
            return super().plot(*quantities)
        caption = f"{self._caption()}, the curve is the estimated distribution"
        return quantiles_figure(self._table(), *self.cdf(), caption)

    def _lines(self) -> list[str]:
        band = self.interval()
        rows = zip(self.q, self.estimate, band.low, band.high, strict=True)
        return [
            f"{f'{q:g}-quantile':<13} {shown(float(value), Interval(float(low), float(high)))}"
            for q, value, low, high in rows
        ]


def _rank(q: float, users: int) -> int:
    """Return r of the r-th smallest value, by the decimal that stands for q."""
    return max(1, math.ceil(Fraction(repr(q)) * users))


@lru_cache(maxsize=64)
def _reach(
    tree: Tree, noise: Divisible, bins: int, share: float, miss: float, known: bool
) -> NDArray[np.float64]:
    """Return half widths of the ranks of the inner edges less a ``share`` of all users."""
    weights = np.abs(tree.rank_weights(np.arange(1, bins), share, known=known))
    return noise.linear_half_width(*_distinct(weights), miss)


def _distinct(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct weights of each row, up to rounding and padded with 0, and their counts.

    Of weights that differ by rounding alone the largest is returned.
    """
    falling = -np.sort(-weights, axis=1)
    largest = falling[:, :1]
    new = np.ones(weights.shape, dtype=bool)
    new[:, 1:] = falling[:, :-1] - falling[:, 1:] > 1e-9 * largest
    number_of = np.cumsum(new, axis=1) - 1
    rows, k = weights.shape[0], int(number_of.max()) + 1
    values, counts = np.zeros((rows, k)), np.zeros((rows, k), dtype=np.int64)
    row = np.arange(rows)[:, np.newaxis]
    np.maximum.at(values, (row, number_of), falling)
    np.add.at(counts, (row, number_of), 1)
    counts[values <= 1e-12 * largest] = 0
    return values, counts


def bin_edges(bounds: Bounds, bins: int) -> NDArray[np.float64]:
    """Return the edges of bins of equal numbers of integers, up to one, or of equal widths."""
    if isinstance(bounds, IntegerBounds):
        values = int(bounds.width) + 1
        return np.array([int(bounds.lower) + k * values // bins for k in range(bins + 1)], float)
    return np.linspace(bounds.lower, bounds.upper, bins + 1)


def _default_bins(bounds: Bounds, users: int, epsilon: float | Fraction) -> int:
    """Return the number of bins of users' values, by their number and epsilon."""
    if isinstance(bounds, IntegerBounds) and bounds.width < _MOST_BINS:
        return int(bounds.width) + 1
    wanted = math.ceil(users * float(epsilon) / _USERS_PER_BIN)
    return math.prod(fan_outs(min(max(wanted, _FEWEST_BINS), _MOST_BINS)))


def quantiles(
    x: ArrayLike,
    q: Sequence[float] = QUARTILES,
    *,
    lower: float,
    upper: float,
    epsilon: float | Fraction,
    delta: float | Fraction,
    bins: int | None = None,
    by: Any = None,
    groups: Any = None,
    other: Hashable = None,
    missing: str | float = "refuse",
    rng: RandomSource | None = None,
    ledger: Ledger | None = None,
    **options: Unpack[GroupOptions],
) -> Any:
    """Release quantiles of values within public bounds, of all users or by groups.

    All quantiles are read off one release. Groups need some 200 users each to say much.

    Parameters
    ----------
    x
        As for `ikos.statistics.mean`.
    q : sequence of float
        Between 0 and 1; the quartiles by default.
    bins : int, optional
        Number of bins of equal width, or of equal numbers of integers, not taken from the data. By
        default one for each integer if they are at most 1024, and otherwise from 32 to 1024.
    lower, upper, epsilon, delta, by, groups, other, missing, rng, ledger, **options
        As for `ikos.statistics.mean`; ``integers`` among the options.

    Returns
    -------
    Quantiles, or with ``by`` a dict of labels to Quantiles
        The dict is also one table (`ikos.results.tables.Results`).

    Examples
    --------
    >>> import numpy as np
    >>> ages = np.arange(10_000) % 100
    >>> result = quantiles(ages, lower=0, upper=120, integers=True, epsilon=1, delta=1e-6)
    >>> bool(np.abs(result.estimate - [24, 49, 74]).max() <= 2)
    True
    """
    check_options("quantiles", options, GroupOptions)
    bounds = number_bounds(lower, upper, options.pop("integers", False))
    levels = tuple(float(number("q", level, above=0, below=1)) for level in ordered("q", q))
    if not levels:
        raise InvalidValue("q", f"must hold at least one number, got {quote(q)}")
    values = filled(one_column(x, with_gaps), missing, bounds)
    most = int(min(bounds.width + 1, _LARGEST_BINS)) if isinstance(bounds, IntegerBounds) else None
    count = (
        _default_bins(bounds, values.size, epsilon)
        if bins is None
        else integer("bins", bins, low=2, high=most or _LARGEST_BINS)
    )
    excluded = missing == "exclude"
    users = (
        UsersGroups.one(values.size)
        if without_groups(by, groups, other)
        else places_in_groups(by, groups, other, values.size, excluded)
    )
    tree, edges = Tree(fan_outs(count)), bin_edges(bounds, count)
    labels, places, by_name = users
    domain = Portions([len(labels) * size for size in tree.sizes])
    counted = np.flatnonzero((places != NO_GROUP) & ~np.isnan(values))
    bin_of = np.searchsorted(edges[1:-1], values[counted], side="right")
    vectors = np.zeros((values.size, domain.dimension), dtype=np.uint8)
    for run, size in zip(domain.runs, tree.sizes, strict=True):
        node = bin_of // (tree.sizes[-1] // size)
        vectors[counted, run.start + places[counted] * size + node] = 1
    private = private_sum_of(vectors, domain, (epsilon, delta, rng, ledger, options))
    known = by is None and not excluded
    results = [
        Quantiles(private, levels, bounds, count, known, place, len(labels))
        for place in range(len(labels))
    ]
    return results[0] if by is None else Results(by_name, zip(labels, results, strict=True))


def median(
    x: ArrayLike,
    *,
    lower: float,
    upper: float,
    epsilon: float | Fraction,
    delta: float | Fraction,
    bins: int | None = None,
    by: Any = None,
    groups: Any = None,
    other: Hashable = None,
    missing: str | float = "refuse",
    rng: RandomSource | None = None,
    ledger: Ledger | None = None,
    **options: Unpack[GroupOptions],
) -> Any:
    """Release the median; parameters and results are as for `quantiles`.

    Examples
    --------
    >>> import numpy as np
    >>> result = median(np.linspace(0, 1, 5001) ** 2, lower=0, upper=1, epsilon=1, delta=1e-6)
    >>> bool(abs(result.estimate[0] - 0.25) < 0.05)
    True
    """
    check_options("median", options, GroupOptions)
    return quantiles(
        x, (0.5,), lower=lower, upper=upper, epsilon=epsilon, delta=delta, bins=bins, by=by,
        groups=groups, other=other, missing=missing, rng=rng, ledger=ledger, **options,
    )  # fmt: skip
