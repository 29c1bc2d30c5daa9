"""Goodness of fit with a false-alarm rate that is proved, not asymptotic.

Every statistical test of this suite is a likelihood-ratio test of a fixed number of independent
draws against a known law on finitely many cells, with `ikos.results.confidence.p_value_bound`. A
test that demands more than `FALSE_ALARM` of it fails wrongly with probability at most 1e-9,
whatever the seed. Seeds are fixed for reproducibility alone. The bound costs little power: it
behaves like a chi-square test with up to twice the degrees of freedom.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from scipy.signal import fftconvolve

from ikos.results.confidence import p_value_bound

FALSE_ALARM = 1e-9


def uniform_p_value(values: ArrayLike, cells: int) -> float:
    """Test draws from {0..cells-1} against the uniform law."""
    drawn = np.asarray(values).astype(np.int64)
    assert drawn.min(initial=0) >= 0
    assert drawn.max(initial=0) < cells
    return p_value_bound(np.bincount(drawn, minlength=cells), np.full(cells, 1 / cells))


def outcome_p_value(outcomes: Iterable[Hashable], law: Mapping[Any, Any]) -> float:
    """Test outcomes of any kind against a law given as outcome to probability."""
    tally = Counter(outcomes)
    if not tally.keys() <= law.keys():
        return 0.0
    return p_value_bound([tally[key] for key in law], [float(p) for p in law.values()])


@dataclass(frozen=True)
class IntegerLaw:
    """A law on the integers from ``first`` on; the tail cut off belongs to the last value."""

    first: int
    pmf: NDArray[np.float64]

    def minus(self, other: IntegerLaw) -> IntegerLaw:
        """Return the law of the difference of independent variables."""
        pmf = np.maximum(fftconvolve(self.pmf, other.pmf[::-1]), 0.0)
        return IntegerLaw(self.first - other.first - other.pmf.size + 1, pmf)

    def p_value(self, draws: NDArray[Any], cells: int = 20) -> float:
        """Test draws against the law, on runs of values pooled to about 1/cells each."""
        values = draws.astype(np.int64) - self.first
        if values.min() < 0:
            return 0.0
        middle = np.cumsum(self.pmf) - self.pmf / 2
        cell = np.clip((middle * cells).astype(np.int64), 0, cells - 1)
        cell = np.unique(cell, return_inverse=True)[1]
        probabilities = np.bincount(cell, weights=self.pmf)
        counts = np.bincount(
            cell[np.minimum(values, self.pmf.size - 1)], minlength=probabilities.size
        )
        return p_value_bound(counts, probabilities)


def polya_law(r: float, s: float) -> IntegerLaw:
    """Return Polya(r, exp(-s)), cut where less than about e^-40 is left; r = 1 is geometric."""
    length = int((40 + 3 * r) / s) + 2
    k = np.arange(length - 1)
    ratios = math.exp(-s) * (k + r) / (k + 1)
    start = (-math.expm1(-s)) ** r
    return IntegerLaw(0, start * np.concatenate(([1.0], np.cumprod(ratios))))


def discrete_laplace_law(s: float) -> IntegerLaw:
    """Return the law with P[k] proportional to exp(-s |k|), cut likewise, in closed form."""
    reach = int(40 / s) + 2
    k = np.arange(-reach, reach + 1)
    return IntegerLaw(-reach, math.tanh(s / 2) * np.exp(-s * np.abs(k)))


def skellam_delta(epsilon: Fraction, variance: Fraction, l2_squared: int) -> float:
    """Return the delta of Skellam noise by Gaussian privacy: documentation, Skellam noise."""
    with mpmath.workdps(40):
        v = mpmath.mpf(variance.numerator) / variance.denominator
        mu = mpmath.sqrt(8 * l2_squared) * mpmath.erfinv(mpmath.besseli(0, v) * mpmath.exp(-v))
        e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        return float(mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu))


def skellam_law(variance: float) -> IntegerLaw:
    """Return the law of differences of Poisson variables, cut where less than e^-40 is left."""
    reach = int(10 * math.sqrt(variance)) + 40
    k = np.arange(-reach, reach + 1)
    return IntegerLaw(-reach, special.ive(np.abs(k), variance))
