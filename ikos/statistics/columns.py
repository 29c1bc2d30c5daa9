"""Several columns of numbers: means, variances and public linear functions of the users' rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._options import VectorSumOptions
from ikos._validation import doubles, flag, number, quote, real
from ikos.accounting.vector_noise import Sensitivity
from ikos.aggregation.private_sum import PrivateVectorSum
from ikos.aggregation.protocol import BLOCK
from ikos.bounds import MAX_BOUND
from ikos.domains import Ball, Box
from ikos.modular import blocks
from ikos.randomness import RandomSource
from ikos.results import Guarantee, Interval, Printed, SumResult, figures, footer, shown

ROUNDING = Fraction(1, 10**9)
"""The fraction by which sensitivities of computed values are enlarged."""

_SQUARES = Fraction(166, 100)
"""Weight of a squared distance relative to the distance itself; see `variances`."""

_CORNERS = 1 << 23
"""The most numbers to be computed for the corners of a box."""


@dataclass(frozen=True, eq=False)
class ColumnRelease(Printed):
    """What rests on one private sum of vectors."""

    private: SumResult

    @property
    def guarantee(self) -> Guarantee:
        """For all columns together."""
        return self.private.guarantee


@dataclass(frozen=True, eq=False)
class ColumnSums(ColumnRelease):
    """Private sums of several columns, in the units of each.

    Attributes
    ----------
    private : SumResult
        The private sum behind them, of columns brought to one scale.
    scale, offset : (k,) ndarray
        A user's value is ``offset + scale`` times what was added up.
    """

    scale: NDArray[np.float64]
    offset: NDArray[np.float64]

    @property
    def users(self) -> int:
        """Users who took part; public."""
        return self.private.users

    @property
    def estimate(self) -> NDArray[np.float64]:
        """Unbiased estimates of the sums over the users. Not clipped."""
        return self._in_units(self.private.estimate)

    @property
    def standard_error(self) -> NDArray[np.float64]:
        """Bound on the root of the mean squared error of each sum."""
        each = math.sqrt(self.private.error.coordinate.mean_square)
        return np.asarray(np.abs(self.scale) * each)

    def means(self) -> NDArray[np.float64]:
        """Return the estimates of the means over the users."""
        return self.estimate / self.users

    def interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Return an interval for each sum, like `SumResult.interval`."""
        band = self.private.interval(confidence, simultaneous=simultaneous)
        low, high = self._in_units(band.low), self._in_units(band.high)
        # and for the rounding of the scaling itself
        base = np.abs(self.users * self.offset)
        slack = 4 * np.spacing(np.maximum(np.abs(low), np.abs(high)) + base)
        return Interval(low - slack, high + slack)

    def mean_interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Return `interval` for the means."""
        band = self.interval(confidence, simultaneous=simultaneous)
        return Interval(band.low / self.users, band.high / self.users)

    def _in_units(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.users * self.offset + self.scale * sums)

    def __str__(self) -> str:
        band = self.mean_interval()
        rows = zip(self.means()[:8], band.low, band.high, strict=False)
        lines = [
            f"mean {place:<3} {shown(mean, Interval(low, high))}"
            for place, (mean, low, high) in enumerate(rows)
        ]
        return _report(lines, self.scale.size, self.private)


def _report(lines: list[str], columns: int, private: SumResult) -> str:
    """Return lines about the first eight columns, and what follows them."""
    more = [f"... {columns:,} columns in all"] if columns > 8 else []
    return "\n".join((*lines, *more, *footer(private.guarantee, str(private.cost), private.users)))


def _promise_kept(result: SumResult) -> SumResult:
    """Return a result without the condition that a promise is kept, where the library keeps it."""
    kept = tuple(line for line in result.guarantee.conditions if "promised" not in line)
    return replace(result, guarantee=replace(result.guarantee, conditions=kept))


def _limits(name: str, value: ArrayLike, columns: int) -> NDArray[np.float64]:
    """Return a bound for each column."""
    given = doubles(name, value)
    if given.shape not in ((), (columns,)):
        raise ValueError(f"{name} must be a number or {columns} of them, got shape {given.shape}")
    limits = np.broadcast_to(given, (columns,))
    if not (np.abs(limits) <= MAX_BOUND).all():
        raise ValueError(f"{name} must be within {MAX_BOUND:g}, got {quote(value)}")
    return limits


def _scaled(
    x: ArrayLike, lower: ArrayLike, upper: ArrayLike, width: int = 1
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return distances from the middle of the bounds in [-1, 1], this middle, and half the widths.

    The array has ``width`` times d columns, for the caller to fill all but the first d. Where
    bounds are a few roundings apart their middle is not halfway: half a width is the distance to
    the further bound, so that no value is cut off and none is off by more than a rounding.
    """
    values = real("x", x)
    if values.ndim != 2 or not values.size:
        raise ValueError(
            f"x must have shape (users, columns), a row for each user, got shape {values.shape}"
        )
    users, d = values.shape
    low, high = _limits("lower", lower, d), _limits("upper", upper, d)
    if not (high - low >= 1 / MAX_BOUND).all():
        place = int(np.argmin(high - low))
        raise ValueError(
            f"upper must be greater than lower in each column, got {float(high[place])!r} and "
            f"{float(low[place])!r} in column {place}"
        )
    centre = low / 2 + high / 2
    half = np.maximum(high - centre, centre - low)
    scaled = np.empty((users, width * d))
    for part in blocks(users, max(1, BLOCK // d)):
        rows = values[part].astype(np.float64)
        inside = (rows >= low) & (rows <= high)  # False for NaN
        if not inside.all():
            row, column = np.unravel_index(int(np.argmin(inside)), inside.shape)
            raise ValueError(
                f"x[{part.start + row}, {column}] must be in [{low[column]:g}, {high[column]:g}]"
            )
        scaled[part, :d] = np.clip((rows - centre) / half, -1.0, 1.0)
    return scaled, centre, half


def means(
    x: ArrayLike,
    *,
    lower: ArrayLike,
    upper: ArrayLike,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Unpack[VectorSumOptions],
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
        For `PrivateVectorSum`, but for ``sensitivity`` and ``integers``, which are in the units
        of its vectors, not of these columns: with one of them use a `Box` there.

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
    scaled, centre, half = _scaled(x, lower, upper)
    users, d = scaled.shape
    # Both are named so that Python refuses them among the options: a sensitivity in the columns'
    # own units would be taken for one of the scaled values, and too little noise added.
    protocol = PrivateVectorSum(
        users, Box(d, -1, 1), epsilon, delta, sensitivity=None, integers=False, **options
    )
    return ColumnSums(protocol.run(scaled, rng), half, centre)


@dataclass(frozen=True, eq=False)
class Variances(ColumnRelease):
    """Private means and variances of several columns.

    Attributes
    ----------
    private : SumResult
        The private sum of u, and then of w (u^2 - 1/2), for distances u from the middle in [-1, 1].
    centre, half : (d,) ndarray
        The middle of the bounds of each column, and how far they are from it at most.
    """

    centre: NDArray[np.float64]
    half: NDArray[np.float64]

    @property
    def _first(self) -> ColumnSums:
        d = self.centre.size
        first = replace(self.private, estimate=self.private.estimate[:d])
        return ColumnSums(first, np.ones(d), np.zeros(d))

    @property
    def _second(self) -> ColumnSums:
        d = self.centre.size
        second = replace(self.private, estimate=self.private.estimate[d:])
        return ColumnSums(second, np.full(d, float(1 / _SQUARES)), np.full(d, 0.5))

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

    def interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Return an interval for each variance, like `SumResult.interval`.

        From one interval for each of the two sums, each at half the risk.
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
        return Interval((second.low - largest) * square, (second.high - smallest) * square)

    def __str__(self) -> str:
        band, first = self.interval(), self._first.mean_interval()
        widths = self.half * (first.high - first.low)
        rows = zip(self.estimate[:8], self.means(), widths, band.low, band.high, strict=False)
        lines = [
            f"variance {place:<3} {shown(value, Interval(low, high))}; mean {figures(mean, width)}"
            for place, (value, mean, width, low, high) in enumerate(rows)
        ]
        return _report(lines, self.centre.size, self.private)


def variances(
    x: ArrayLike,
    *,
    lower: ArrayLike,
    upper: ArrayLike,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Unpack[VectorSumOptions],
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
    pairs, centre, half = _scaled(x, lower, upper, 2)
    users, d = pairs.shape[0], half.size
    for part in blocks(users, max(1, BLOCK // d)):
        pairs[part, d:] = float(_SQUARES) * (pairs[part, :d] ** 2 - 0.5)
    larger = 1 + ROUNDING
    apart = Sensitivity(
        l1=d * (1 + 2 * _SQUARES) ** 2 / (4 * _SQUARES) * larger,
        l2=2 * Fraction(math.sqrt(d)) * larger,
        linf=2 * larger,
    )
    protocol = PrivateVectorSum(
        users, Box(2 * d, -1, 1), epsilon, delta, sensitivity=apart, integers=False, **options
    )
    return Variances(_promise_kept(protocol.run(pairs, rng)), centre, half)


def linear_statistics(
    x: ArrayLike,
    weights: ArrayLike,
    domain: Box | Ball,
    *,
    epsilon: float | Fraction,
    delta: float | Fraction,
    rng: RandomSource | None = None,
    **options: Unpack[VectorSumOptions],
) -> ColumnSums:
    """Release the sums of public linear functions of the users' vectors.

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
        For `PrivateVectorSum`, but for ``sensitivity`` and ``integers``, which follow from the
        domain and the weights.

    Returns
    -------
    ColumnSums
        Of W x.

    Notes
    -----
    How far W x moves is computed from W and the domain. For a ball in l2 norm it is the diameter
    times the largest singular value. For a box it is the maximum of a convex function over the
    corners, all of which are tried where there are few; otherwise the smallest of several bounds
    by norms of W.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).uniform(size=(5000, 3))
    >>> total_and_trend = [[1, 1, 1], [-1, 0, 1]]
    >>> result = linear_statistics(x, total_and_trend, Box(3), epsilon=1, delta=1e-6)
    >>> bool(np.abs(result.means() - [1.5, 0]).max() < 0.1)
    True
    """
    matrix = doubles("weights", weights)
    if not isinstance(domain, (Box, Ball)):
        raise TypeError(f"domain must be a Box or a Ball, got {type(domain).__name__}")
    if matrix.ndim != 2 or not matrix.size or matrix.shape[1] != domain.dimension:
        raise ValueError(
            f"weights must have shape (functions, {domain.dimension}), got shape {matrix.shape}"
        )
    size = float(np.abs(matrix).max())
    if not 1e-50 <= size <= 1e50:  # False for NaN
        raise ValueError(f"weights must be finite, at most 1e50 and not all 0, got {size!r}")
    values = domain.values(x)
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
    for part in blocks(users, max(1, BLOCK // max(values.shape[1], k))):
        results[part] = (values[part].astype(np.float64) - centre) @ matrix.T
    protocol = PrivateVectorSum(
        users, Box(k, -reach, reach), epsilon, delta, sensitivity=apart, integers=False, **options
    )
    private = _promise_kept(protocol.run(np.clip(results, -reach, reach), rng))
    return ColumnSums(private, np.ones(k), matrix @ centre)


def _moved(matrix: NDArray[np.float64], domain: Box | Ball) -> tuple[float, Sensitivity]:
    """Return the largest absolute value of W (x - centre), and how far two of them are apart.

    All are enlarged by more than the rounding errors of W x, of a part d 2^-52 of the largest
    value in each coordinate, and of what is computed here.
    """
    k, d = matrix.shape
    larger = 1 + float(ROUNDING) + 8 * d * k * 2.0**-52
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
            math.sqrt(d) * top, float(np.linalg.norm(absolute.sum(axis=1))), float(columns.sum())
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
