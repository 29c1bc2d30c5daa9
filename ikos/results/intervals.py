"""Intervals, and estimates printed with them."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import Any, NamedTuple

import numpy as np

from ikos.results.text import figures


class Interval(NamedTuple):
    """A closed interval; for vectors, an array of low and one of high ends.

    Printed with its ends rounded outwards, to a hundredth of its width, but integers as they are.

    Examples
    --------
    >>> print(Interval(0.123456, 0.234567), Interval(5.0, 7.0))
    [0.123, 0.235] [5, 7]
    """

    low: Any
    high: Any

    def __str__(self) -> str:
        if np.ndim(self.low):
            return f"[{self.low}, {self.high}]"
        low = figures(self.low, self._scale(), ROUND_FLOOR)
        return f"[{low}, {figures(self.high, self._scale(), ROUND_CEILING)}]"

    def _scale(self, *others: float) -> float:
        """Return the width; at least 100, which shows no decimals, if all numbers are integers."""
        whole = all(float(number).is_integer() for number in (*self, *others))
        return max(float(self.high - self.low), 100.0 if whole else 0.0)


def rounded(estimate: float, interval: Interval) -> str:
    """Return an estimate to the digits of its interval; NaN is "none"."""
    return "none" if math.isnan(estimate) else figures(estimate, interval._scale(estimate))


def shown(estimate: float, interval: Interval) -> str:
    """Return an estimate and its 95 % interval, to the same number of digits."""
    return f"{rounded(estimate, interval)}  95 % interval {interval}"
