"""Private sums of several columns: what means and linear functions return."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ikos.results import Guarantee, Interval, Printed, SumResult, footer, shown

ROUNDING = Fraction(1, 10**9)
"""What sensitivities of computed values are enlarged by, as a part of them."""


@dataclass(frozen=True, eq=False)
class ColumnSums(Printed):
    """Private sums of several columns, in the units of each.

    Attributes
    ----------
    private : SumResult
        The private sum behind them, of columns brought to one scale.
    scale, offset : (k,) ndarray
        A user's value is ``offset + scale`` times what was added up.
    """

    private: SumResult
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

    def interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Return an interval for each sum, as of `SumResult.interval`."""
        band = self.private.interval(confidence, simultaneous=simultaneous)
        low, high = self._whole(band.low), self._whole(band.high)
        # and for the rounding of the scaling itself
        slack = 4 * np.spacing(np.maximum(np.abs(low), np.abs(high)) + np.abs(self._base))
        return Interval(low - slack, high + slack)

    def mean_interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Return `interval` for the means."""
        band = self.interval(confidence, simultaneous=simultaneous)
        return Interval(band.low / self.users, band.high / self.users)

    @property
    def _base(self) -> NDArray[np.float64]:
        return self.users * self.offset

    def _whole(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self._base + self.scale * sums)

    def __str__(self) -> str:
        band = self.mean_interval()
        lines = [
            f"mean {place:<3} {shown(mean, Interval(low, high))}"
            for place, (mean, low, high) in enumerate(
                zip(self.means()[:8], band.low, band.high, strict=False)
            )
        ]
        if self.scale.size > 8:
            lines.append(f"... {self.scale.size:,} columns in all")
        private = self.private
        return "\n".join((*lines, *footer(private.guarantee, str(private.cost), private.users)))


def promise_kept(result: SumResult) -> SumResult:
    """Return a result without the condition that a promise is kept: the caller saw to it."""
    kept = tuple(line for line in result.guarantee.conditions if "promised" not in line)
    return replace(result, guarantee=replace(result.guarantee, conditions=kept))
