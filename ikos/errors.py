"""What is known of the error of an estimate: its mean square, and how far off it can be.

In units of the range of one user's value. Half widths are bounds at every sample size: Chernoff's
method on a bound of the moment generating function, no normal approximation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from ikos.accuracy import NoiseLaw, standard_error

__all__ = ["ErrorLaw"]


class ErrorLaw(Protocol):
    """The distribution of an unbiased estimate's error, as far as it is known."""

    @property
    def mean_square(self) -> float:
        """Bound on its mean square."""

    def half_width(self, miss: float) -> float:
        """Return t such that the error exceeds t in absolute value with probability <= miss."""


def chernoff(log_mgf: Callable[[float], float], miss: float, largest: float) -> float:
    """Return t with P[abs(error) > t] <= miss, from a bound of the moment generating function.

    Parameters
    ----------
    log_mgf : callable
        Bound on ln E exp(h error) and on ln E exp(-h error), for 0 < h < ``largest``.
    miss : float
        In (0, 1).
    largest : float
        Where the bound ends; may be infinite.

    Notes
    -----
    Every h gives a bound, (log_mgf(h) + ln(2 / miss)) / h; the best of a fine geometric grid and
    its refinement is returned.
    """
    from scipy import optimize

    wanted = math.log(2 / miss)

    def bound(log_h: float) -> float:
        h = math.exp(log_h)
        if not h < largest:
            return math.inf
        try:
            return (log_mgf(h) + wanted) / h
        except OverflowError:
            return math.inf

    top = math.log(largest) if largest < math.inf else 60.0
    grid = [top - 0.25 * step for step in range(1, 800)]
    values = [bound(log_h) for log_h in grid]
    best = min(range(len(grid)), key=values.__getitem__)
    with np.errstate(invalid="ignore"):  # where the bound is infinite
        near = optimize.minimize_scalar(
            bound, bounds=(grid[best] - 0.25, min(grid[best] + 0.25, top)), method="bounded"
        )
    return min(values[best], float(near.fun))


@dataclass(frozen=True)
class Bounded:
    """A sum of independent centred terms, each within a bound.

    Parameters
    ----------
    mean_square : float
        Bound on the sum of their variances.
    largest : float
        Bound on the absolute value of each.

    Notes
    -----
    By Bennett's inequality ln E exp(h sum) <= v (exp(h b) - 1 - h b) / b^2.

    Examples
    --------
    >>> coins = Bounded(mean_square=250.0, largest=0.5)  # of 1000 fair coins
    >>> 31 < coins.half_width(0.05) < 49  # 31 by the normal distribution
    True
    """

    mean_square: float
    largest: float

    def half_width(self, miss: float) -> float:
        """Return t such that the error exceeds t in absolute value with probability <= miss."""
        if self.mean_square == 0:
            return 0.0
        v, b = self.mean_square, self.largest

        def log_mgf(h: float) -> float:
            x = h * b
            # exp(x) - 1 - x <= x^2 / 2 / (1 - x/3) for x < 3, where the difference loses digits
            above = x * x / (2 - 2 * x / 3) if x < 1e-5 else math.expm1(x) - x
            return v * above / b**2

        return chernoff(log_mgf, miss, math.inf)


@dataclass(frozen=True)
class Noisy:
    """Noise that is a difference of Polya variables, and perhaps the error of rounding.

    Parameters
    ----------
    law : NoiseLaw
        Of the noise, in steps of the encoding.
    precision : int
        Steps in the range of one user's value.
    users : int
        How many.
    rounded : bool
        Whether each rounded its value at random to a step.
    """

    law: NoiseLaw
    precision: int
    users: int
    rounded: bool = True

    @classmethod
    def discrete_laplace(
        cls, rate: Fraction, precision: int, users: int, *, shape: int | Fraction = 1
    ) -> Noisy:
        """Return that of ``shape`` independent variables of rate ``rate``, and of rounding."""
        return cls(NoiseLaw(rate, Fraction(shape)), precision, users)

    @property
    def mean_square(self) -> float:
        """Bound on the mean square."""
        return (
            standard_error(
                self.law,
                users=self.users,
                precision=self.precision,
                modulus=None,
                rounded=self.rounded,
            )
            ** 2
        )

    def half_width(self, miss: float) -> float:
        """Return t such that the error exceeds t in absolute value with probability <= miss."""
        return self.law.half_width(miss, self.users if self.rounded else 0) / self.precision
