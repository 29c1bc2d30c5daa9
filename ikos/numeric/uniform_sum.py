"""The sum of many uniform integers, with its exact distribution function.

Let Z be the sum of n independent uniform variables on {0..w-1}, c = n (w - 1) / 2 its mean and v =
n (w^2 - 1) / 12 its variance, and D(t) = sin(w t / 2) / (w sin(t / 2)). Folded modulo a period L of
the parity of n (w - 1) + 1, Z - c lies within L/2, and by discrete Fourier inversion, exactly,

    P[Z >= T] = 1/2 - (x + sum_{0 < j < L/2} D(2 pi j / L)^n sin(2 pi j x / L) / sin(pi j / L)) / L

for x = T - c - 1/2: a geometric series in T; terms j and L - j are equal, that of j = L/2 is 0.
Folding moves a probability of at most 2 exp(-L^2 / (8 v)), as Z is sub-Gaussian (`_log_mgf`). D
falls from 1 to 0 on [0, 2 pi / w], and is at most 1 / (w sin(pi / w)) <= 1/2 in absolute value from
there to pi: behind a term with D^n <= 2^-303 / L, if 2^-n is as small, all others add up to less
than 2^-303. About 130 terms are enough for every n and w. Of few variables, outcomes are counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import gmpy2
import numpy as np
from gmpy2 import mpc, mpfr, mpq
from numpy.typing import NDArray

from ikos._validation import round_up
from ikos.numeric.distributions import Divisible
from ikos.numeric.rounding import NEAREST, rounding
from ikos.numeric.search import first

_COUNTED = 388
"""Most variables whose outcomes are counted: of more, 2^-n <= 2^-303 / L."""

_ENOUGH = 303  # bits
_BITS = 420  # far more than the margin: each of some 130 terms is off by at most n 2^-410

_LN_2 = 0.6931471805599454  # rounded up


@dataclass(frozen=True)
class UniformSum(Divisible):
    """The sum of independent uniform variables on {0..width-1}, less its mean.

    ``variables`` and ``width`` are at most 2^53. The distribution is symmetric and log-concave.
    """

    variables: int
    width: int

    largest = math.inf

    @property
    def top(self) -> int:
        """The largest value of the sum, before its mean is subtracted."""
        return self.variables * (self.width - 1)

    @property
    def integers(self) -> bool:  # type: ignore[override]
        """Whether the mean is an integer."""
        return self.top % 2 == 0

    @property
    def _twelfths(self) -> int:
        """Twelve times the variance."""
        return self.variables * (self.width**2 - 1)

    @property
    def variance(self) -> float:
        """Exact variance, n (w^2 - 1) / 12."""
        return self._twelfths / 12

    @property
    def margin(self) -> mpq:
        """Bound on the error of `tail`: 0 if it is exact."""
        return mpq(0) if self.variables <= _COUNTED else mpq(1, 1 << 300)

    @lru_cache(maxsize=1 << 14)  # noqa: B019 - of small objects that are equal by value
    def tail(self, least: int) -> mpq | mpfr:
        """Return P[Z >= least] for the sum before its mean is subtracted, up to ``margin``."""
        if least <= 0 or least > self.top:
            return mpq(least <= 0)
        if self.variables <= _COUNTED:
            return mpq(self._at_most(self.top - least), self.width**self.variables)
        period, terms = self._series
        with rounding(NEAREST, _BITS):
            half = mpfr(period) / 2
            x = max(-half, min(half, mpfr(2 * least - 1 - self.top) / 2))  # beyond, it is 0 or 1
            angle = 2 * gmpy2.const_pi() * x / period
            point, total = mpc(gmpy2.cos(angle), gmpy2.sin(angle)), mpc(0)
            for term in terms:
                total = (total + term) * point
            return mpfr(1) / 2 - (x + total.imag) / period

    def _at_most(self, largest: int) -> int:
        """Return the number of outcomes whose sum is at most ``largest``."""
        n, w = self.variables, self.width
        return sum(
            (-1) ** i * gmpy2.bincoef(n, i) * gmpy2.bincoef(largest - i * w + n, n)
            for i in range(largest // w + 1)
        )

    @cached_property
    def _series(self) -> tuple[int, list[mpfr]]:
        """Return the period, and the coefficients of the sines, the last first."""
        period = math.isqrt((_ENOUGH + 1) * self._twelfths // 2) + 1  # 1 / 2 > ln 2 * 8 / 12
        period += (period + self.top + 1) % 2
        terms: list[mpfr] = []
        with rounding(NEAREST, _BITS):
            power, enough = mpfr(1), mpfr(2) ** -_ENOUGH / period
            while power > enough:
                half = gmpy2.const_pi() * (len(terms) + 1) / period
                sine = gmpy2.sin(half)
                power = (gmpy2.sin(self.width * half) / (self.width * sine)) ** self.variables
                terms.append(power / sine)
        return period, terms[::-1]

    def _log_mgf(self, theta: float) -> mpfr:
        """Return variance theta^2 / 2, a bound on n ln(sinh(w t) / (w sinh t)), t = theta / 2.

        By Euler's product sinh x = x prod_k (1 + (x / (k pi))^2), and (1 + a) / (1 + b) <= e^(a-b).
        """
        return mpfr(theta) ** 2 * self._twelfths / 24

    def log_mgfs(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the same in doubles."""
        return theta**2 * (self.variance / 2)

    def peaks(self, theta: NDArray[np.float64], count: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return 1, which bounds all probabilities: Chernoff's bound stays as it is."""
        return np.ones(np.broadcast_shapes(theta.shape, count.shape))

    def log_tail_bound(self, distance: float | Fraction) -> float:
        """Return ln of Chernoff's bound on both tails, rounded up; at most 0."""
        square = Fraction(max(distance, 0)) ** 2
        if 4 * square > self.top**2:
            return -math.inf
        return min(0.0, math.nextafter(round_up(-6 * square / self._twelfths) + _LN_2, math.inf))

    def half_width(self, miss: float, users: int) -> float:
        """Return the smaller of two bounds: Chernoff's, and one by the exact tail S.

        S is log-concave, so that P[noise + R > t + 1] <= S(t) exp(h^2 users / 8) with h the slope
        of -ln S at t, as for discrete Laplace noise. Without errors R of rounding, S alone counts.
        """

        def enough(least: int) -> bool:
            if least > self.top:
                return True
            with rounding(NEAREST):
                here, before = (self.tail(place) + self.margin for place in (least, least - 1))
                slope = float(gmpy2.log(before / here)) if users else 0.0
                return float(gmpy2.log(2 * here)) + slope**2 * users / 8 <= math.log(miss)

        least = first(enough, self.top // 2, self.top + 1)
        beyond = math.inf if users and least > self.top else least - 1 - self.top / 2
        return min(super().half_width(miss, users), beyond + (users > 0))
