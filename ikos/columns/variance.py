"""Means and variances of columns within public bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._options import VectorSumOptions, check_passed_on
from ikos._validation import flag, number
from ikos.accounting.vector_noise import Sensitivity
from ikos.aggregation.private_vector_sum import PrivateVectorSum
from ikos.columns.bounded import SCALED, BoundedColumns
from ikos.columns.sums import ROUNDING, ColumnSums, promise_kept
from ikos.domains import Box
from ikos.randomness import RandomSource
from ikos.results import Guarantee, Interval, Printed, SumResult, figures, footer, shown

_SQUARES = Fraction(166, 100)
"""Weight of a squared distance beside the distance itself; see `variances`."""


@dataclass(frozen=True, eq=False)
class Variances(Printed):
    """Private means and variances of several columns.

    Attributes
    ----------
    private : SumResult
        The private sum of u, and then of w (u^2 - 1/2), for distances u from the middle in [-1, 1].
    centre, half : (d,) ndarray
        The middle of the bounds of each column, and how far they are from it at most.
    """

    private: SumResult
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

    def interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> Interval:
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
        return Interval((second.low - largest) * square, (second.high - smallest) * square)

    def __str__(self) -> str:
        band, first = self.interval(), self._first.mean_interval()
        widths = self.half * (first.high - first.low)
        lines = [
            f"variance {place:<3} {shown(value, Interval(low, high))}; mean {figures(mean, width)}"
            for place, (value, mean, width, low, high) in enumerate(
                zip(self.estimate[:8], self.means(), widths, band.low, band.high, strict=False)
            )
        ]
        if self.centre.size > 8:
            lines.append(f"... {self.centre.size:,} columns in all")
        private = self.private
        return "\n".join((*lines, *footer(private.guarantee, str(private.cost), private.users)))


def _some(private: SumResult, part: slice) -> SumResult:
    """Return a result of some coordinates: what is known of each coordinate stays as it is."""
    return SumResult(
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
    check_passed_on("variances", options, VectorSumOptions, SCALED)
    columns = BoundedColumns.checked(x, lower, upper)
    users, d = columns.values.shape
    pairs = np.empty((users, 2 * d))
    for part in columns.parts():
        u = columns.signed(part)
        pairs[part, :d] = u
        pairs[part, d:] = float(_SQUARES) * (u**2 - 0.5)
    larger = 1 + ROUNDING
    apart = Sensitivity(
        l1=d * (1 + 2 * _SQUARES) ** 2 / (4 * _SQUARES) * larger,
        l2=2 * Fraction(math.sqrt(d)) * larger,
        linf=2 * larger,
    )
    protocol = PrivateVectorSum(
        users, Box(2 * d, -1, 1), epsilon, delta, sensitivity=apart, **options
    )
    return Variances(promise_kept(protocol.run(pairs, rng)), columns.centre, columns.half)
