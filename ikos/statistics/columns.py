"""Means, counts, variances and public linear functions of columns of numbers."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import (
    InvalidType,
    InvalidValue,
    array,
    doubles,
    flag,
    number,
    quote,
    real,
    reject_missing,
)
from ikos._validation import missing as is_missing
from ikos.data.domains import MAX_BOUND, Ball, Bounds, Box, number_bounds, require
from ikos.data.sensitivity import Sensitivity
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import RandomSource
from ikos.results.intervals import Interval, shown
from ikos.results.sums import SumResult
from ikos.results.tables import EstimateTable, Results
from ikos.results.text import figures
from ikos.statistics.groups import (
    GroupMeans,
    GroupVariances,
    PresentMean,
    PresentVariance,
    means_by_group,
    means_of_present,
)
from ikos.statistics.labels import UsersGroups, column_names, places_in_groups, without_groups
from ikos.statistics.release import (
    GroupOptions,
    MeanOptions,
    Release,
    Run,
    SumOptions,
    VectorSumOptions,
    check_options,
    filled,
    first_lines,
    one_column,
    private_sum_of,
    with_gaps,
)
from ikos.sums.ledger import Ledger
from ikos.sums.private import PrivateSum

ColumnBounds = ArrayLike | Mapping[Any, float]
"""A bound of all columns, or one for each: in their order, or by their names."""

ROUNDING = Fraction(1, 10**9)
"""The fraction by which sensitivities of computed values are enlarged."""

_SQUARES = Fraction(166, 100)  # weight of a squared distance next to the distance; see `variances`
ENTRIES_PER_PASS = 1 << 21
_CORNERS = 1 << 23  # most numbers computed for the corners of a box


def mean(
    x: ArrayLike,
    *,
    lower: float,
    upper: float,
    epsilon: float | Fraction,
    delta: float | Fraction,
    by: Any = None,
    groups: Any = None,
    other: Hashable = None,
    missing: str | float = "refuse",
    rng: RandomSource | None = None,
    ledger: Ledger | None = None,
    **options: Unpack[GroupOptions],
) -> Any:
    """Release the sum and the mean of values within public bounds, of all users or by groups.

    Parameters
    ----------
    x : (n,) array_like of float
        One value per user, each in ``[lower, upper]``.
    lower, upper : float
        Public bounds, not taken from the data.
    epsilon, delta : float
        The guarantee of the whole release.
    by : (n,) array_like, or mapping of names to these, optional
        The label of each user's group; of several columns, as of a data frame, groups are the
        combinations of labels. Which group a user is in is protected as well as its value.
    groups : sequence of labels, or mapping of the same names to these
        The public groups, not taken from the data. Other labels are refused.
    other : label, optional
        One more group, of all users with other labels.
    missing : "refuse", "exclude" or float
        What happens to missing values (None, NaN, NaT, NA or masked): an error; the mean is of the
        users who have a value and, with ``by``, a group, and who they are is protected; or the
        public value that stands for each.
    rng : RandomSource, optional
        Secure randomness by default.
    ledger : ikos.Ledger, optional
        Where the release is recorded before anything is drawn.
    **options
        For `PrivateSum`; with groups or excluded values, those for `PrivateVectorSum`.

    Returns
    -------
    SumResult, PresentMean or GroupMeans
        The second if missing values are excluded, the third if there are groups.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(20, 30, 5000)
    >>> result = mean(x, lower=0, upper=100, epsilon=1, delta=1e-6)
    >>> bool(abs(result.mean() - 25) < 1)
    True
    >>> labels = ["young"] * 2500 + ["old"] * 2500
    >>> options = {"by": labels, "groups": ["young", "old"], "lower": 0, "upper": 100}
    >>> result = mean(x, epsilon=1, delta=1e-6, **options)
    >>> bool(np.abs(result.means() - [22.5, 27.5]).max() < 2)
    True
    """
    excluded, alone = missing == "exclude", without_groups(by, groups, other)
    check_options("mean", options, GroupOptions if excluded or not alone else MeanOptions)
    integers = flag("integers", options.pop("integers", False))
    bounds = number_bounds(lower, upper, integers)
    values = filled(one_column(x, with_gaps), missing, bounds)
    rest: SumOptions = options
    run = (epsilon, delta, rng, ledger, rest)
    if not alone:
        users = places_in_groups(by, groups, other, values.size, excluded)
        (result,) = means_by_group([values], [bounds], users, excluded, run)
        return result
    if excluded:
        (present,) = means_of_present([values], [bounds], run)
        return present
    protocol = PrivateSum(
        values.size, epsilon, delta, lower=lower, upper=upper, integers=integers, **rest
    )
    return protocol.run(values, rng, ledger=ledger)


def count(
    x: ArrayLike,
    *,
    epsilon: float | Fraction,
    delta: float | Fraction,
    by: Any = None,
    groups: Any = None,
    other: Hashable = None,
    missing: str | float = "refuse",
    rng: RandomSource | None = None,
    ledger: Ledger | None = None,
    **options: Unpack[VectorSumOptions],
) -> Any:
    """Release the number of users whose answer is true, and their proportion as the mean.

    ``x`` holds booleans; other parameters and results are as for `mean`, with ``missing`` also
    True or False. By groups, or if missing answers are excluded, true answers are the ``sums()`` of
    the result, whose ``counts()`` are of all users with an answer.

    Examples
    --------
    >>> import numpy as np
    >>> result = count(np.arange(10_000) % 4 == 0, epsilon=1, delta=1e-8)
    >>> bool(abs(result.estimate - 2500) < 50), result.estimate.is_integer()
    (True, True)
    """
    alone = without_groups(by, groups, other) and missing != "exclude"
    check_options("count", options, SumOptions if alone else VectorSumOptions)
    fill = float(missing) if isinstance(missing, bool) else missing
    return mean(
        _answers(x, gaps=fill != "refuse"), lower=0, upper=1, integers=True, epsilon=epsilon,
        delta=delta, by=by, groups=groups, other=other, missing=fill, rng=rng, ledger=ledger,
        **options,
    )  # fmt: skip


def _answers(x: Any, *, gaps: bool) -> NDArray[np.float64]:
    """Return booleans as 0 and 1, and missing ones as NaN where there may be ``gaps``."""
    if gaps and isinstance(x, np.ma.MaskedArray):
        x = np.where(np.ma.getmaskarray(x), np.array(None, dtype=object), x.data)
    answers = one_column(x, array)
    if answers.dtype != bool:
        if not gaps:
            reject_missing("x", answers, "a boolean")
        absent = np.fromiter(map(is_missing, answers), bool, answers.size)
        if not {bool, np.bool_}.issuperset(map(type, answers[~absent])):
            raise InvalidType("x", f"must hold booleans, got an array of {answers.dtype}")
        answers = np.where(absent, math.nan, answers)
    return answers.astype(np.float64)


@dataclass(frozen=True, eq=False)
class ColumnSums(Release):
    """Private sums of several columns, in each column's units.

    A user's value is ``offset + scale`` times what the ``private`` sum added up. ``columns`` are
    the names of a data frame's, or numbers.
    """

    scale: Any
    offset: Any
    columns: tuple[Hashable, ...] = ()

    @property
    def estimate(self) -> Any:
        """Unbiased estimates of the sums over the users. Not clipped."""
        return self._in_units(self.private.estimate)

    @property
    def standard_error(self) -> Any:
        """Bound on the root mean squared error of each sum."""
        return np.abs(self.scale) * math.sqrt(self.private.error.coordinate.mean_square)

    def means(self) -> Any:
        """Return the estimated means over the users."""
        return self.estimate / self.users

    def interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Return an interval for each sum, as `SumResult.interval`."""
        band = self.private.interval(confidence, simultaneous=simultaneous)
        low, high = self._in_units(band.low), self._in_units(band.high)
        # and the rounding of the scaling itself
        base = np.abs(self.users * self.offset)
        slack = 4 * np.spacing(np.maximum(np.abs(low), np.abs(high)) + base)
        return Interval(low - slack, high + slack)

    def mean_interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Return `interval` for the means."""
        band = self.interval(confidence, simultaneous=simultaneous)
        return Interval(band.low / self.users, band.high / self.users)

    def _in_units(self, sums: Any) -> Any:
        return self.users * self.offset + self.scale * sums

    def _table(self) -> EstimateTable:
        quantities = {
            "sum": (self.estimate, self.interval()),
            "mean": (self.means(), self.mean_interval()),
        }
        return EstimateTable(("column",), [(name,) for name in self.columns], quantities, units=1)

    def _lines(self) -> list[str]:
        band = self.mean_interval()
        rows = zip(self.columns, self.means(), band.low, band.high, strict=True)
        lines = (
            f"mean {name!s:<3} {shown(mean, Interval(low, high))}" for name, mean, low, high in rows
        )
        return first_lines(lines, len(self.columns))


def _in_order(name: str, bounds: Any, x: Any) -> Any:
    """Return bounds by the names of a data frame's columns in their order, others unchanged."""
    if not isinstance(bounds, Mapping):
        return bounds
    names = column_names(x, 0)
    missing = [one for one in names if one not in bounds]
    unknown = [one for one in bounds if one not in names]
    if missing or unknown:
        what = "a bound for each column of x, got none" if missing else "columns of x, got a bound"
        named = ", ".join(map(quote, missing or unknown))
        raise InvalidValue(name, f"must name {what} for {named}")
    return [bounds[one] for one in names]


def _limits(name: str, value: ArrayLike, columns: int) -> NDArray[np.float64]:
    """Return a bound for each column."""
    bounds = doubles(name, value)
    if bounds.shape not in ((), (columns,)):
        raise InvalidValue(name, f"must be a number or {columns} of them, got shape {bounds.shape}")
    return np.broadcast_to(bounds, columns)


def _rows(values: NDArray[Any]) -> tuple[int, int]:
    """Return the numbers of users and columns."""
    if values.ndim != 2 or not values.size:
        raise InvalidValue(
            "x", f"must have shape (users, columns), a row for each user, got shape {values.shape}"
        )
    users, d = values.shape
    return users, d


def _scaled(
    x: ArrayLike, lower: ArrayLike, upper: ArrayLike, width: int = 1
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return distances from the middle of the bounds in [-1, 1], the middle, and half the widths.

    The array has ``width`` times d columns, of which the caller fills all but the first d. If
    bounds are a few roundings apart, their middle is not halfway: half a width is the distance to
    the further bound, so that no value is cut off and none is off by more than a rounding.
    """
    values = real("x", x)
    users, d = _rows(values)
    low, high = _limits("lower", lower, d), _limits("upper", upper, d)
    if not ((high - low >= 1 / MAX_BOUND) & (np.maximum(-low, high) <= MAX_BOUND)).all():
        raise InvalidValue(
            "upper",
            f"must be greater than lower in each column, and both within {MAX_BOUND:g}, got "
            f"{quote(upper)} and {quote(lower)}",
        )
    centre = low / 2 + high / 2
    half = np.maximum(high - centre, centre - low)
    scaled = np.empty((users, width * d))
    for part in blocks(users, max(1, ENTRIES_PER_PASS // d)):
        rows = values[part].astype(np.float64)
        inside = (rows >= low) & (rows <= high)  # False for NaN
        require(rows, inside, part.start, "be between the bounds of its column")
        scaled[part, :d] = np.clip((rows - centre) / half, -1.0, 1.0)
    return scaled, centre, half


def means(
    x: ArrayLike,
    *,
    lower: ColumnBounds,
    upper: ColumnBounds,
    epsilon: float | Fraction,
    delta: float | Fraction,
    by: Any = None,
    groups: Any = None,
    other: Hashable = None,
    missing: str | float = "refuse",
    rng: RandomSource | None = None,
    ledger: Ledger | None = None,
    **options: Unpack[VectorSumOptions],
) -> Any:
    """Release the sums and the means of several columns within public bounds, also by groups.

    Each column is scaled to the same range, so that noise is proportional to its bounds.

    Parameters
    ----------
    x : (n, d) array_like of float
        One row per user.
    lower, upper : float, (d,) array_like of float, or mapping of column names to floats
        Public bounds, common or per column, not taken from the data.
    epsilon, delta, by, groups, other, missing, rng, ledger
        As for `ikos.statistics.mean`; the guarantee is for all columns together.
    **options
        For `PrivateVectorSum`, except ``sensitivity`` and ``integers``, which refer to its vectors:
        to give one, use it with a `Box`.

    Returns
    -------
    ColumnSums, or dict of GroupMeans or PresentMean
        The latter with groups, or if missing values are excluded: by the name or number of each
        column, and also one table (`ikos.results.tables.Results`).

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace([20, 0], [30, 1], 5000)
    >>> result = means(x, lower=0, upper=[100, 1], epsilon=1, delta=1e-6)
    >>> bool(np.abs(result.means() - [25, 0.5]).max() < 1)
    True
    """
    run = (epsilon, delta, rng, ledger, options)
    check_options("means", options, VectorSumOptions)
    low, high = _in_order("lower", lower, x), _in_order("upper", upper, x)
    excluded, alone = missing == "exclude", without_groups(by, groups, other)
    if alone and missing == "refuse":
        return _column_sums(x, x, low, high, run)
    columns, bounds = _columns(x, low, high, missing)
    if alone and not excluded:
        return _column_sums(np.stack(columns, axis=1), x, low, high, run)
    results: Sequence[PresentMean | GroupMeans]
    if alone:
        results = means_of_present(columns, bounds, run)
    else:
        users = places_in_groups(by, groups, other, columns[0].size, excluded)
        results = means_by_group(columns, bounds, users, excluded, run)
    return Results("column", zip(column_names(x, len(columns)), results, strict=True), units=True)


def _columns(
    x: Any, lower: ArrayLike, upper: ArrayLike, missing: str | float
) -> tuple[list[NDArray[np.float64]], list[Bounds]]:
    """Return the checked columns of a table, as `filled`, and their bounds."""
    numbers = with_gaps("x", x)
    d = _rows(numbers)[1]
    limits = zip(_limits("lower", lower, d), _limits("upper", upper, d), strict=True)
    bounds = [Bounds(float(low), float(high)) for low, high in limits]
    columns = []
    for place, (column, bound) in enumerate(zip(numbers.T, bounds, strict=True)):
        try:
            columns.append(filled(column, missing, bound))
        except InvalidValue as error:
            where = error.parameter if error.row is None else f"x[{error.row}, {place}]"
            raise InvalidValue(where, error.what, row=error.row) from None
    return columns, bounds


def _column_sums(
    values: ArrayLike, table: Any, lower: ArrayLike, upper: ArrayLike, run: Run
) -> ColumnSums:
    """Return the private sums of values, with the names of a table's columns."""
    scaled, centre, half = _scaled(values, lower, upper)
    private = private_sum_of(scaled, Box(half.size, -1, 1), run)
    return ColumnSums(private, half, centre, column_names(table, half.size))


@dataclass(frozen=True, eq=False)
class Variances(Release):
    """Private means and variances of several columns, or of one, as floats.

    The ``private`` sum is of the distances u from the ``centre`` of each column's bounds, divided
    by ``half`` their width, followed by w (u^2 - 1/2). ``columns`` are the names of a data frame's,
    or numbers; None for a single column.
    """

    centre: Any
    half: Any
    columns: tuple[Hashable, ...] | None = None

    def _moments(self) -> tuple[ColumnSums, ColumnSums]:
        """Return the sums of u and of u^2."""
        first, second = self.private.estimate.reshape(2, *np.shape(self.half))
        return (
            ColumnSums(replace(self.private, estimate=first), 1.0, 0.0),
            ColumnSums(replace(self.private, estimate=second), float(1 / _SQUARES), 0.5),
        )

    @property
    def estimate(self) -> Any:
        """The variances of the users' values, with denominator n.

        Differences of noisy numbers, not clipped: they can be negative if a variance is small
        compared with the noise.
        """
        first, second = self._moments()
        return (second.means() - first.means() ** 2) * self.half**2

    def means(self) -> Any:
        """Return the estimated means."""
        return self.centre + self.half * self._moments()[0].means()

    mean = means

    def interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Return an interval for each variance, as `SumResult.interval`.

        It combines one interval for each of the two sums, each with half the error probability.
        """
        level = number("confidence", confidence, above=0, below=1)
        risk = (1 - level) / 2
        if flag("simultaneous", simultaneous):
            risk /= np.size(self.half)
        first, second = (sums.mean_interval(float(1 - risk)) for sums in self._moments())
        largest = np.maximum(first.low**2, first.high**2)
        smallest = np.minimum(first.low**2, first.high**2)
        smallest = np.where((first.low <= 0) & (first.high >= 0), 0.0, smallest)
        square = self.half**2
        return Interval((second.low - largest) * square, (second.high - smallest) * square)

    def mean_interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Return an interval for each mean, as `SumResult.interval`."""
        band = self._moments()[0].mean_interval(confidence, simultaneous=simultaneous)
        low, high = (self.centre + self.half * end for end in band)
        slack = 4 * np.spacing(np.maximum(np.abs(low), np.abs(high)) + np.abs(self.centre))
        return Interval(low - slack, high + slack)

    def _table(self) -> EstimateTable:
        quantities = {
            "variance": (self.estimate, self.interval()),
            "mean": (self.means(), self.mean_interval()),
        }
        if self.columns is None:
            return EstimateTable((), [()], quantities)
        return EstimateTable(("column",), [(name,) for name in self.columns], quantities, units=1)

    def _lines(self) -> list[str]:
        band, first = self.interval(), self._moments()[0].mean_interval()
        widths = self.half * (first.high - first.low)
        columns = map(np.atleast_1d, (self.estimate, band.low, band.high, self.means(), widths))
        names = [""] if self.columns is None else [f" {name!s:<3}" for name in self.columns]
        lines = (
            f"variance{name} {shown(value, Interval(low, high))}; mean {figures(mean, width)}"
            for name, value, low, high, mean, width in zip(names, *columns, strict=True)
        )
        return first_lines(lines, np.size(self.half))


def variances(
    x: ArrayLike,
    *,
    lower: ColumnBounds,
    upper: ColumnBounds,
    epsilon: float | Fraction,
    delta: float | Fraction,
    by: Any = None,
    groups: Any = None,
    other: Hashable = None,
    missing: str | float = "refuse",
    rng: RandomSource | None = None,
    ledger: Ledger | None = None,
    **options: Unpack[VectorSumOptions],
) -> Any:
    """Release the means and variances of several columns; parameters are as for `means`.

    One private sum adds up the distances u in [-1, 1] from the middle of the bounds, and their
    squares times w = 1.66, a weight at which the pair (u, w u^2) still moves by at most 2 in l2
    norm, like u alone. In l1 norm it moves by at most (1 + 2w)^2 / (4w) (documentation, Sums of
    vectors). With groups or excluded values, results are as for `variance`.

    Returns
    -------
    Variances, or dict of GroupVariances or PresentVariance
        The latter with groups, or if missing values are excluded, by column as for `means`.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace([20, 0], [30, 1], 5000)
    >>> result = variances(x, lower=[0, 0], upper=[50, 1], epsilon=1, delta=1e-6)
    >>> bool((np.abs(result.estimate - x.var(axis=0)) < [20, 0.01]).all())
    True
    """
    check_options("variances", options, VectorSumOptions)
    low, high = _in_order("lower", lower, x), _in_order("upper", upper, x)
    run = (epsilon, delta, rng, ledger, options)
    alone = without_groups(by, groups, other)
    if alone and missing == "refuse":
        sums = _sums_of_squares(x, low, high, run)
        return Variances(*sums, column_names(x, sums[-1].size))
    columns, bounds = _columns(x, low, high, missing)
    names = column_names(x, len(columns))
    if alone and missing != "exclude":
        return Variances(*_sums_of_squares(np.stack(columns, axis=1), low, high, run), names)
    results = _variances_by_group(columns, bounds, (by, groups, other, missing), run)
    return Results("column", zip(names, results, strict=True), units=True)


def variance(
    x: ArrayLike,
    *,
    lower: float,
    upper: float,
    epsilon: float | Fraction,
    delta: float | Fraction,
    by: Any = None,
    groups: Any = None,
    other: Hashable = None,
    missing: str | float = "refuse",
    rng: RandomSource | None = None,
    ledger: Ledger | None = None,
    **options: Unpack[VectorSumOptions],
) -> Any:
    """Release the mean and variance of one column; parameters as for `mean`, without ``integers``.

    Returns
    -------
    Variances, PresentVariance or GroupVariances
        The second if missing values are excluded, the third if there are groups: also with counts
        and sums.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(20, 30, 5000)
    >>> result = variance(x, lower=0, upper=50, epsilon=1, delta=1e-6)
    >>> bool(abs(result.estimate - x.var()) < 5)
    True
    >>> groups = {"by": ["young"] * 2500 + ["old"] * 2500, "groups": ["young", "old"]}
    >>> result = variance(x, lower=0, upper=50, epsilon=1, delta=1e-6, **groups)
    >>> bool(np.abs(result.variances() - 25 / 12).max() < 20)
    True
    """
    check_options("variance", options, VectorSumOptions)
    run = (epsilon, delta, rng, ledger, options)
    alone = without_groups(by, groups, other)
    if alone and missing == "refuse":
        column = one_column(x)
    else:
        bounds = number_bounds(lower, upper, False)
        column = filled(one_column(x, with_gaps), missing, bounds)
        if missing == "exclude" or not alone:
            grouping = (by, groups, other, missing)
            (result,) = _variances_by_group([column], [bounds], grouping, run)
            return result
    private, (centre,), (half,) = _sums_of_squares(column[:, np.newaxis], lower, upper, run)
    return Variances(private, float(centre), float(half))


def _variances_by_group(
    columns: Sequence[NDArray[np.float64]],
    bounds: Sequence[Bounds],
    grouping: tuple[Any, Any, Hashable, str | float],
    run: Run,
) -> list[Any]:
    """Return the variances of each column by groups, or of all users who have a value."""
    (by, groups, other, missing), users = grouping, columns[0].size
    excluded = missing == "exclude"
    if by is None:
        return means_by_group(
            columns, bounds, UsersGroups.one(users), excluded, run, PresentVariance
        )
    places = places_in_groups(by, groups, other, users, excluded)
    return means_by_group(columns, bounds, places, excluded, run, GroupVariances)


def _sums_of_squares(
    x: ArrayLike, lower: ArrayLike, upper: ArrayLike, run: Run
) -> tuple[SumResult, NDArray[np.float64], NDArray[np.float64]]:
    """Return the private sum of `variances`, the middle of the bounds, and half their widths."""
    pairs, centre, half = _scaled(x, lower, upper, 2)
    d = half.size
    for part in blocks(pairs.shape[0], max(1, ENTRIES_PER_PASS // d)):
        pairs[part, d:] = float(_SQUARES) * (pairs[part, :d] ** 2 - 0.5)
    larger = 1 + ROUNDING
    apart = Sensitivity(
        l1=d * (1 + 2 * _SQUARES) ** 2 / (4 * _SQUARES) * larger,
        l2=2 * Fraction(math.sqrt(d)) * larger,
        linf=2 * larger,
        proved=True,
    )
    return private_sum_of(pairs, Box(2 * d, -1, 1), run, apart), centre, half


@np.errstate(under="ignore")
def linear_statistics(
    x: ArrayLike,
    weights: ArrayLike,
    domain: Box | Ball,
    *,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    ledger: Ledger | None = None,
    **options: Unpack[VectorSumOptions],
) -> ColumnSums:
    """Release the sums of k public linear functions W x of the users' vectors of the domain.

    The sensitivity of W x is computed from the (k, d) ``weights`` W and the domain: for a ball in
    l2 norm, the diameter times the largest singular value; for a box the largest at a corner if
    there are few, otherwise the smallest of several norms of W. All functions get the same noise:
    scale down rows that may be less precise, and scale up their estimates. The rest is as for
    `means`.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).uniform(size=(5000, 3))
    >>> total_and_trend = [[1, 1, 1], [-1, 0, 1]]
    >>> result = linear_statistics(x, total_and_trend, Box(3), epsilon=1, delta=1e-6)
    >>> bool(np.abs(result.means() - [1.5, 0]).max() < 0.1)
    True
    """
    check_options("linear_statistics", options, VectorSumOptions)
    matrix = doubles("weights", weights)
    if not isinstance(domain, (Box, Ball)):
        raise InvalidType("domain", f"must be a Box or a Ball, got {type(domain).__name__}")
    if not matrix.size or matrix.shape[1:] != domain.shape:
        wanted = ", ".join(map(str, ("functions", *domain.shape)))
        raise InvalidValue("weights", f"must have shape ({wanted}), got shape {matrix.shape}")
    matrix = matrix.reshape(len(matrix), -1)
    size = float(np.abs(matrix).max())
    if not 1e-50 <= size <= 1e50:  # False for NaN
        raise InvalidValue("weights", f"must be finite, at most 1e50 and not all 0, got {size!r}")
    values = domain.values(x)
    reach, apart = _moved(matrix, domain)
    centre = np.full(domain.dimension, domain.lower / 2 + domain.upper / 2)
    users, k = values.shape[0], matrix.shape[0]
    results = np.empty((users, k))
    for part in blocks(users, max(1, ENTRIES_PER_PASS // max(values.shape[1], k))):
        results[part] = (values[part].astype(np.float64) - centre) @ matrix.T
    np.clip(results, -reach, reach, out=results)
    run = (epsilon, delta, rng, ledger, options)
    private = private_sum_of(results, Box(k, -reach, reach), run, apart)
    return ColumnSums(private, np.ones(k), matrix @ centre, tuple(range(k)))


def _moved(matrix: NDArray[np.float64], domain: Box | Ball) -> tuple[float, Sensitivity]:
    """Return the largest absolute value of W (x - centre), and the largest distance of two.

    Both are enlarged by more than the rounding errors of this computation and of W x, which are a
    fraction d 2^-52 of the largest value in each coordinate.
    """
    k, d = matrix.shape
    larger = 1 + float(ROUNDING) + 8 * d * k * 2.0**-52
    l2 = float(np.linalg.norm(matrix, 2)) if min(k, d) <= 2000 else float(np.linalg.norm(matrix))
    absolute = np.abs(matrix)
    if isinstance(domain, Ball):
        rows = np.linalg.norm(matrix, axis=1)
        l1 = float(rows.sum())
        width = 2 * domain.reach
    else:
        rows = absolute.sum(axis=1)
        l1 = float(absolute.sum())
        columns = float(np.linalg.norm(matrix, axis=0).sum())
        l2 = min(math.sqrt(d) * l2, float(np.linalg.norm(rows)), columns)
        width = domain.bounds.width * (1 + 2.0**-50)
        if d <= 20 and k << d <= _CORNERS:
            corners = matrix @ _signs(d)
            l1 = min(l1, float(np.abs(corners).sum(axis=0).max()))
            l2 = min(l2, float(np.linalg.norm(corners, axis=0).max()))
        elif k <= 20 and d << k <= _CORNERS:  # the same maximum, by duality
            l1 = min(l1, float(np.abs(matrix.T @ _signs(k)).sum(axis=0).max()))
    width, tallest = width * larger, float(rows.max())
    l1, l2, linf = min(l1, math.sqrt(k) * l2) * width, l2 * width, tallest * width
    return linf / 2, Sensitivity(l1=l1, l2=l2, linf=linf, proved=True)


def _signs(count: int) -> NDArray[np.float64]:
    """Return all vectors of signs, up to negation, as columns."""
    codes = np.arange(1 << (count - 1))
    return np.where((codes >> np.arange(count)[:, np.newaxis]) & 1, -1.0, 1.0)
