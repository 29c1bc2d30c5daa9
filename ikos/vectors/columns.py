"""Statistics of several columns at once, each from one private sum of vectors.

Histograms of categorical columns, means and variances within bounds, and public linear functions
of everybody's vector. Each function takes everybody's values, runs the protocol here, and returns
estimates with a guarantee for the whole release. The number of users is public. Keyword arguments
that a function does not name go to `ikos.vectors.PrivateVectorSum` (``min_honest``, ...).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import array, flag, number, quote
from ikos.accounting.vector_noise import Sensitivity
from ikos.bounds import MAX_BOUND
from ikos.modular import blocks
from ikos.randomness import RandomSource
from ikos.results import Guarantee
from ikos.vectors.categories import Categories
from ikos.vectors.domains import Ball, Box
from ikos.vectors.interface import Band, VectorResult
from ikos.vectors.private_sum import PrivateVectorSum

__all__ = [
    "ColumnSums",
    "Histograms",
    "Variances",
    "histograms",
    "linear_statistics",
    "means",
    "variances",
]

_BLOCK = 1 << 21
_CORNERS = 1 << 23
"""Most numbers to be computed in going through the corners of a box."""

_SQUARES = Fraction(166, 100)
"""Weight of a squared distance beside the distance itself; see `variances`."""

_DOUBLES = Fraction(1, 10**9)
"""What sensitivities of computed values are enlarged by, as a part of them."""


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Private sums of several columns, in the units of each.

    Attributes
    ----------
    private : VectorResult
        The private sum behind them, of columns brought to one scale.
    scale, offset : (k,) ndarray
        A user's value is ``offset + scale`` times what was added up.
    """

    private: VectorResult
    scale: NDArray[np.float64]
    offset: NDArray[np.float64]

    @property
    def guarantee(self) -> Guarantee:
        """For all columns together."""
        return self.private.guarantee

    @property
    def users(self) -> int:
        """Users who took part; public."""
        return self.private.users

    @property
    def estimate(self) -> NDArray[np.float64]:
        """Unbiased estimates of the sums over the users. Not clipped."""
        return self._whole(self.private.estimate)

    @property
    def standard_error(self) -> NDArray[np.float64]:
        """Bound on the root of the mean squared error of each sum."""
        each = math.sqrt(self.private.error.coordinate.mean_square)
        return np.asarray(np.abs(self.scale) * each)

    def means(self) -> NDArray[np.float64]:
        """Return the estimates of the means over the users."""
        return self.estimate / self.users

    def interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> Band:
        """Return an interval for each sum, as of `VectorResult.interval`."""
        band = self.private.interval(confidence, simultaneous=simultaneous)
        low, high = self._whole(band.low), self._whole(band.high)
        # and for the rounding of the scaling itself
        slack = 4 * np.spacing(np.maximum(np.abs(low), np.abs(high)) + np.abs(self._base))
        return Band(low - slack, high + slack)

    def mean_interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> Band:
        """Return `interval` for the means."""
        band = self.interval(confidence, simultaneous=simultaneous)
        return Band(band.low / self.users, band.high / self.users)

    @property
    def _base(self) -> NDArray[np.float64]:
        return self.users * self.offset

    def _whole(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self._base + self.scale * sums)

    def __str__(self) -> str:
        band = self.mean_interval()
        lines = [
            f"mean {place:<3} {mean:.8g}  95 % interval [{low:.6g}, {high:.6g}]"
            for place, (mean, low, high) in enumerate(
                zip(self.means()[:8], band.low, band.high, strict=False)
            )
        ]
        if self.scale.size > 8:
            lines.append(f"... {self.scale.size:,} columns in all")
        return "\n".join((*lines, *_footer(self.private)))


def _footer(private: VectorResult) -> tuple[str, ...]:
    return (
        f"guarantee {private.guarantee}",
        *(f"          {condition}" for condition in private.guarantee.conditions),
        f"sent      {private.cost}",
    )


# Histograms


@dataclass(frozen=True, eq=False)
class Histograms:
    """Private counts of the categories of several columns.

    Attributes
    ----------
    categories : mapping
        Column to its categories.
    private : VectorResult
        The private sum behind them, of one coordinate for each category.
    """

    categories: Mapping[Hashable, tuple[Hashable, ...]]
    private: VectorResult

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
        """Return column to category to interval, as of `VectorResult.interval`."""
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
        lines.append(f"error     {each:.4g} for each count (root mean square, at most)")
        return "\n".join((*lines, *_footer(self.private)))


def histograms(
    columns: Mapping[Hashable, ArrayLike],
    categories: Mapping[Hashable, Sequence[Hashable]],
    *,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Any,
) -> Histograms:
    """Release how many users fall into each category of each column.

    One private sum of vectors with a one in each column's run. The replacement of one user moves it
    by at most 2 in l1 norm for each column, however many categories there are.

    Parameters
    ----------
    columns : mapping
        Name to everybody's values, (n,) array_like each, in the same order of users.
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
        If categories are no sequence (a set has no order), text, or not hashable.
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
    if not columns or columns.keys() != categories.keys():
        raise ValueError(
            f"categories must have the names of the columns {quote(list(columns))}, got "
            f"{quote(list(categories))}"
        )
    labels = {name: _labels(name, categories[name]) for name in columns}
    domain = Categories([len(given) for given in labels.values()])
    cells = {name: _cells(name, columns[name], labels[name]) for name in columns}
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


def _labels(name: Hashable, given: object) -> tuple[Hashable, ...]:
    """Return the categories of a column; sets have no order, and text is not many of them."""
    if isinstance(given, (str, bytes, Set, Mapping)) or not isinstance(given, Iterable):
        raise TypeError(
            f"categories[{name!r}] must be a sequence of categories, got {type(given).__name__} "
            f"{quote(given)}"
        )
    labels = tuple(given)
    for label in labels:
        if not _hashable(label):
            raise TypeError(f"categories[{name!r}] must be hashable, got {quote(label)}")
    if not labels or len(set(labels)) != len(labels):
        raise ValueError(
            f"categories[{name!r}] must be distinct and not empty, got {quote(labels)}"
        )
    return labels


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _cells(name: Hashable, x: ArrayLike, labels: tuple[Hashable, ...]) -> NDArray[np.int64]:
    """Return the place of each value among the labels; compared as Python objects, one by one."""
    values = array(f"columns[{name!r}]", x)
    if values.ndim != 1 or not values.size:
        raise ValueError(
            f"columns[{name!r}] must be one-dimensional and not empty, got shape {values.shape}"
        )
    places = {label: place for place, label in enumerate(labels)}
    # As Python objects, but for dates and times, which tolist() would turn into other types.
    items = list(values) if values.dtype.kind in "mM" else values.tolist()
    try:
        cell = np.array([places.get(item, -1) for item in items], dtype=np.int64)
    except TypeError:  # what has no hash is no category
        first = next(place for place, item in enumerate(items) if not _hashable(item))
        raise ValueError(
            f"columns[{name!r}][{first}] must be one of the categories, got {quote(items[first])}"
        ) from None
    if (cell < 0).any():
        first = int(np.argmax(cell < 0))
        raise ValueError(
            f"columns[{name!r}][{first}] must be one of the categories, got {quote(items[first])}"
        )
    return cell


# Means and variances


def _limits(name: str, value: ArrayLike, columns: int) -> NDArray[np.float64]:
    """Return a bound for each column."""
    given = array(name, value)
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold real numbers, got an array of {given.dtype}")
    if given.ndim > 1 or given.size not in (1, columns):
        raise ValueError(f"{name} must be a number or {columns} of them, got shape {given.shape}")
    limits = np.broadcast_to(given.astype(np.float64), (columns,))
    if not (np.abs(limits) <= MAX_BOUND).all():
        raise ValueError(f"{name} must be within {MAX_BOUND:g}, got {quote(value)}")
    return limits


@dataclass(frozen=True, eq=False)
class _Columns:
    """Everybody's values within bounds, one column for each coordinate."""

    values: NDArray[Any]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    @classmethod
    def checked(cls, x: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> _Columns:
        """Check and return them; the values are read block by block."""
        values = array("x", x)
        if values.dtype.kind not in "iuf":
            hint = "; use x.astype(float)" if values.dtype.kind == "b" else ""
            raise TypeError(f"x must hold real numbers, got an array of {values.dtype}{hint}")
        if values.ndim != 2 or not values.size:
            raise ValueError(
                f"x must have shape (users, columns), a row for each user, got shape {values.shape}"
            )
        low, high = (
            _limits(name, bound, values.shape[1])
            for name, bound in (("lower", lower), ("upper", upper))
        )
        if not (high - low >= 1 / MAX_BOUND).all():
            place = int(np.argmin(high - low))
            raise ValueError(
                f"upper must be greater than lower in each column, got {float(high[place])!r} and "
                f"{float(low[place])!r} in column {place}"
            )
        found = cls(values, low, high)
        for part in found.parts():
            rows = values[part].astype(np.float64)
            inside = (rows >= low) & (rows <= high)  # False for NaN
            if not inside.all():
                row, column = np.unravel_index(int(np.argmin(inside)), inside.shape)
                got = float(rows[row, column])
                raise ValueError(
                    f"x[{part.start + row}, {column}] must be in [{low[column]:g}, "
                    f"{high[column]:g}], got {got!r}"
                )
        return found

    @property
    def centre(self) -> NDArray[np.float64]:
        """The middle of the bounds, up to a rounding: public, and whatever it is."""
        return np.asarray(self.lower / 2 + self.upper / 2)

    @property
    def half(self) -> NDArray[np.float64]:
        """The distance of the middle to the bound that is further from it.

        Where bounds are a few roundings apart the middle is not halfway. It is subtracted from them
        exactly then, so that no value is cut off and none is off by more than a rounding.
        """
        return np.asarray(np.maximum(self.upper - self.centre, self.centre - self.lower))

    def parts(self) -> list[slice]:
        """Return runs of users."""
        return list(blocks(self.values.shape[0], max(1, _BLOCK // self.values.shape[1])))

    def signed(self, part: slice) -> NDArray[np.float64]:
        """Return values as distances from the middle, in [-1, 1]."""
        rows = self.values[part].astype(np.float64)
        return np.asarray(np.clip((rows - self.centre) / self.half, -1.0, 1.0))


def means(
    x: ArrayLike,
    *,
    lower: ArrayLike,
    upper: ArrayLike,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Any,
) -> ColumnSums:
    """Release the sums and the means of several columns within public bounds.

    Each column is brought to the same range, so that noise is in proportion to its bounds.

    Parameters
    ----------
    x : (n, d) array_like of float
        A row for each user.
    lower, upper : float or (d,) array_like of float
        Public bounds of all columns or of each, not taken from the data.
    epsilon, delta : float
        The guarantee of the release, for all columns together.
    rng : RandomSource, optional
        Secure randomness by default.
    **options
        For `PrivateVectorSum`.

    Returns
    -------
    ColumnSums
        ``.means()``, ``.mean_interval()``, and the same for sums.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace([20, 0], [30, 1], 5000)
    >>> result = means(x, lower=0, upper=[100, 1], epsilon=1, delta=1e-6)
    >>> bool(np.abs(result.means() - [25, 0.5]).max() < 1)
    True
    """
    columns = _Columns.checked(x, lower, upper)
    users, d = columns.values.shape
    scaled = np.empty((users, d))
    for part in columns.parts():
        scaled[part] = columns.signed(part)
    private = PrivateVectorSum(users, Box(d, -1, 1), epsilon, delta, **options).run(scaled, rng)
    return ColumnSums(private, columns.half, columns.centre)


@dataclass(frozen=True, eq=False)
class Variances:
    """Private means and variances of several columns.

    Attributes
    ----------
    private : VectorResult
        The private sum of u, and then of w (u^2 - 1/2), for distances u from the middle in [-1, 1].
    centre, half : (d,) ndarray
        The middle of the bounds of each column, and how far they are from it at most.
    """

    private: VectorResult
    centre: NDArray[np.float64]
    half: NDArray[np.float64]

    @property
    def guarantee(self) -> Guarantee:
        """For all columns together."""
        return self.private.guarantee

    @property
    def _first(self) -> ColumnSums:
        d = self.centre.size
        return ColumnSums(_some(self.private, slice(0, d)), np.ones(d), np.zeros(d))

    @property
    def _second(self) -> ColumnSums:
        d = self.centre.size
        scale = np.full(d, float(1 / _SQUARES))
        return ColumnSums(_some(self.private, slice(d, 2 * d)), scale, np.full(d, 0.5))

    @property
    def estimate(self) -> NDArray[np.float64]:
        """The variances of the users' values, with denominator n.

        Differences of noisy numbers: not clipped, they can be negative where a variance is small
        against the noise.
        """
        return np.asarray((self._second.means() - self._first.means() ** 2) * self.half**2)

    def means(self) -> NDArray[np.float64]:
        """Return the estimates of the means."""
        return np.asarray(self.centre + self.half * self._first.means())

    def interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> Band:
        """Return an interval for each variance.

        From one interval for each of the two sums, each at half of the risk.

        Parameters
        ----------
        confidence : float
            Between 0 and 1: with at least this probability each interval contains its variance.
        simultaneous : bool
            With at least this probability all of them do.
        """
        level = number("confidence", confidence, above=0, below=1)
        risk = (1 - level) / 2
        if flag("simultaneous", simultaneous):
            risk /= self.centre.size
        each = float(1 - risk)
        first, second = self._first.mean_interval(each), self._second.mean_interval(each)
        largest = np.maximum(first.low**2, first.high**2)
        smallest = np.minimum(first.low**2, first.high**2)
        smallest[(first.low <= 0) & (first.high >= 0)] = 0.0
        square = self.half**2
        return Band((second.low - largest) * square, (second.high - smallest) * square)

    def __str__(self) -> str:
        band = self.interval()
        lines = [
            f"variance {place:<3} {value:.8g}  95 % interval [{low:.6g}, {high:.6g}]; "
            f"mean {mean:.8g}"
            for place, (value, mean, low, high) in enumerate(
                zip(self.estimate[:8], self.means(), band.low, band.high, strict=False)
            )
        ]
        if self.centre.size > 8:
            lines.append(f"... {self.centre.size:,} columns in all")
        return "\n".join((*lines, *_footer(self.private)))


def _some(private: VectorResult, part: slice) -> VectorResult:
    """Return a result of some coordinates: what is known of each coordinate stays as it is."""
    return VectorResult(
        private.estimate[part],
        private.users,
        private.domain,
        private.guarantee,
        private.cost,
        private.error,
    )


def variances(
    x: ArrayLike,
    *,
    lower: ArrayLike,
    upper: ArrayLike,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Any,
) -> Variances:
    """Release the means and the variances of several columns within public bounds.

    One private sum of the distances u in [-1, 1] from the middle of the bounds, and of their
    squares, times w = 1.66.

    Parameters
    ----------
    x, lower, upper, epsilon, delta, rng, **options
        As for `means`.

    Returns
    -------
    Variances

    Notes
    -----
    Two values of one column, with s and t the sum and the difference of their distances from the
    middle, have abs(s) + abs(t) <= 2, and squares that differ by s t. So the pair moves by
    t^2 (1 + w^2 s^2) <= t^2 + w^2 t^2 (2 - t)^2 in squared l2 norm, which is at most 4 for
    w^2 <= (2 + t) / (t^2 (2 - t)), whose minimum is 2.77 at t = sqrt 5 - 1: up to w = 1.66 squares
    are free. In l1 norm it is t (1 + w (2 - t)), at most (1 + 2w)^2 / (4w).

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace([20, 0], [30, 1], 5000)
    >>> result = variances(x, lower=[0, 0], upper=[50, 1], epsilon=1, delta=1e-6)
    >>> bool((np.abs(result.estimate - x.var(axis=0)) < [20, 0.01]).all())
    True
    """
    columns = _Columns.checked(x, lower, upper)
    users, d = columns.values.shape
    pairs = np.empty((users, 2 * d))
    for part in columns.parts():
        u = columns.signed(part)
        pairs[part, :d] = u
        pairs[part, d:] = float(_SQUARES) * (u**2 - 0.5)
    larger = 1 + _DOUBLES
    apart = Sensitivity(
        l1=d * (1 + 2 * _SQUARES) ** 2 / (4 * _SQUARES) * larger,
        l2=2 * Fraction(math.sqrt(d)) * larger,
        linf=2 * larger,
    )
    protocol = PrivateVectorSum(
        users, Box(2 * d, -1, 1), epsilon, delta, sensitivity=apart, **options
    )
    return Variances(_proved(protocol.run(pairs, rng)), columns.centre, columns.half)


def _proved(result: VectorResult) -> VectorResult:
    """Return a result without the condition that a promise is kept: the caller saw to it."""
    kept = tuple(line for line in result.guarantee.conditions if "promised" not in line)
    return replace(result, guarantee=replace(result.guarantee, conditions=kept))


# Linear functions


def linear_statistics(
    x: ArrayLike,
    weights: ArrayLike,
    domain: Box | Ball,
    *,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Any,
) -> ColumnSums:
    """Release the sums of public linear functions of everybody's vector.

    Parameters
    ----------
    x : (n, d) array_like of float
        Vectors of the domain, a row for each user.
    weights : (k, d) array_like of float
        W: each user adds W x. All k functions get the same noise: scale rows that may be less
        precise down, and their estimates up.
    domain : Box or Ball
        Where the vectors lie.
    epsilon, delta : float
        The guarantee of the release.
    rng : RandomSource, optional
        Secure randomness by default.
    **options
        For `PrivateVectorSum`.

    Returns
    -------
    ColumnSums
        Of W x.

    Notes
    -----
    How far W x moves is computed from W and the domain. For a ball in l2 norm it is the diameter
    times the largest singular value. For a box it is a convex function's maximum over its corners,
    gone through where there are few; else the smallest of bounds by norms of W.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).uniform(size=(5000, 3))
    >>> total_and_trend = [[1, 1, 1], [-1, 0, 1]]
    >>> result = linear_statistics(x, total_and_trend, Box(3), epsilon=1, delta=1e-6)
    >>> bool(np.abs(result.means() - [1.5, 0]).max() < 0.1)
    True
    """
    matrix = array("weights", weights)
    if matrix.dtype.kind not in "iuf":
        raise TypeError(f"weights must hold real numbers, got an array of {matrix.dtype}")
    if not isinstance(domain, (Box, Ball)):
        raise TypeError(f"domain must be a Box or a Ball, got {type(domain).__name__}")
    matrix = matrix.astype(np.float64)
    if matrix.ndim != 2 or not matrix.size or matrix.shape[1] != domain.dimension:
        raise ValueError(
            f"weights must have shape (functions, {domain.dimension}), got shape {matrix.shape}"
        )
    size = float(np.abs(matrix).max())
    if not 1e-50 <= size <= 1e50:  # False for NaN
        raise ValueError(f"weights must be finite, at most 1e50 and not all 0, got {size!r}")
    values = domain.vectors(x)
    reach, apart = _moved(matrix, domain)
    if not 1 / MAX_BOUND <= reach <= MAX_BOUND:
        raise ValueError(
            f"weights must be such that results in {domain} are at most {MAX_BOUND:g} from the "
            f"middle, and not all within {1 / MAX_BOUND:g} of it, got {reach:.3g}"
        )
    centre = np.zeros(domain.dimension)
    if isinstance(domain, Box):
        centre += domain.lower / 2 + domain.upper / 2
    users, k = values.shape[0], matrix.shape[0]
    results = np.empty((users, k))
    for part in blocks(users, max(1, _BLOCK // max(values.shape[1], k))):
        results[part] = (values[part].astype(np.float64) - centre) @ matrix.T
    protocol = PrivateVectorSum(
        users, Box(k, -reach, reach), epsilon, delta, sensitivity=apart, **options
    )
    private = _proved(protocol.run(np.clip(results, -reach, reach), rng))
    return ColumnSums(private, np.ones(k), matrix @ centre)


def _moved(matrix: NDArray[np.float64], domain: Box | Ball) -> tuple[float, Sensitivity]:
    """Return the largest absolute value of W (x - centre), and how far two of them are apart.

    All are enlarged by more than the rounding errors of W x, of a part d 2^-52 of the largest
    value in each coordinate, and of what is computed here.
    """
    k, d = matrix.shape
    larger = 1 + float(_DOUBLES) + 8 * d * k * 2.0**-52
    top = float(np.linalg.norm(matrix, 2)) if min(k, d) <= 2000 else float(np.linalg.norm(matrix))
    absolute = np.abs(matrix)
    if isinstance(domain, Ball):
        rows = np.linalg.norm(matrix, axis=1)
        tallest = float(rows.max())
        l2 = top
        l1 = min(float(rows.sum()), math.sqrt(k) * l2)
        width = domain.diameter
    else:
        tallest = float(absolute.sum(axis=1).max())
        columns = np.linalg.norm(matrix, axis=0)
        l2 = min(
            math.sqrt(d) * top,
            float(np.linalg.norm(absolute.sum(axis=1))),
            float(columns.sum()),
        )
        l1 = min(float(absolute.sum()), math.sqrt(k) * l2)
        width = float(domain.bounds.width) * (1 + 2.0**-50)
        if d <= 20 and k << d <= _CORNERS:
            corners = matrix @ _signs(d)
            l1 = min(l1, float(np.abs(corners).sum(axis=0).max()))
            l2 = min(l2, float(np.linalg.norm(corners, axis=0).max()))
        elif k <= 20 and d << k <= _CORNERS:  # the same maximum, by duality
            l1 = min(l1, float(np.abs(matrix.T @ _signs(k)).sum(axis=0).max()))
    apart = Sensitivity(
        l1=l1 * width * larger, l2=l2 * width * larger, linf=tallest * width * larger
    )
    return tallest * width / 2 * larger, apart


def _signs(count: int) -> NDArray[np.float64]:
    """Return all vectors of signs, up to a sign of the whole, as columns."""
    codes = np.arange(1 << (count - 1))
    return np.where((codes >> np.arange(count)[:, np.newaxis]) & 1, -1.0, 1.0)
