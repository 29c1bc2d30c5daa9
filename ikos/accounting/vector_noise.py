"""What independent noise in every coordinate guarantees for a sum of integer vectors.

Replacing one user moves the sum by some k in Z^d with known bounds on its l1, l2 and l-infinity
norms (`Sensitivity`). Each coordinate gets independent noise: discrete Laplace of one rate (inverse
scale, per step), or discrete Gaussian of one variance. Three bounds hold for Laplace noise, each
for every k within the norms: "pure" adds up the coordinates, "composition" composes randomized
responses exactly, "renyi" uses their Renyi divergence. Discrete Gaussian noise is as private as
Gaussian noise of a variance smaller by 1/12. Proofs: :ref:`proof-vector-noise` and
:ref:`proof-gaussian`.

CKS20 is Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import gmpy2
import numpy as np
from gmpy2 import mpfr

from ikos._validation import number, round_down, round_up
from ikos.accounting.composition import copies_delta
from ikos.accounting.gaussian import gaussian_mu
from ikos.counts.rounding import DOWN, UP, exact, float_up, rounding

MAX_COORDINATES = 1 << 21
_ROOTS_UP = 1 + Fraction(1, 1 << 52)  # a double that stands for a root is nearer below it

Real = int | float | Fraction


@dataclass(frozen=True)
class Sensitivity:
    """How far replacing one user's vector moves a sum at most, in three norms.

    Parameters
    ----------
    l1, l2, linf : float, optional
        Bounds on the sum of absolute values, the Euclidean norm, and the largest absolute value; at
        least one. Omitted and loose bounds follow from the others.

    Examples
    --------
    >>> Sensitivity(l1=2, linf=1).steps(100)  # one-hot vectors of 100 coordinates
    Shift(dimension=100, l1=2, l2_squared=2, linf=1)
    """

    l1: Real | None = None
    l2: Real | None = None
    linf: Real | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("l1", "l2", "linf") if getattr(self, name) is not None]
        if not given:
            raise ValueError("sensitivity must bound at least one of l1, l2, linf, got none")
        for name in given:
            object.__setattr__(self, name, number(name, getattr(self, name), above=0))

    def steps(
        self, dimension: int, *, scale: Real = 1, rounding_error: Real = 0, most: int | None = None
    ) -> Shift:
        """Return the tightest bounds for integer vectors; ValueError if they are below one step.

        ``scale`` is the steps of the encoding per unit of the norms. Both encodings differ from
        what is encoded by less than half of ``rounding_error`` steps in each coordinate: 2 for
        randomized rounding. No coordinate of a difference exceeds ``most``.
        """
        d, steps, error = dimension, Fraction(scale), Fraction(rounding_error)
        tallest = [] if most is None else [most]
        whole, squares = [], []
        if self.l1 is not None:
            whole.append(math.floor(Fraction(self.l1) * steps + d * error))
        if self.l2 is not None:
            with rounding(UP):
                moved = gmpy2.sqrt(exact(d * error**2, UP))
            l2 = Fraction(self.l2) * _ROOTS_UP * steps
            squares.append(math.floor((l2 + Fraction(*map(int, moved.as_integer_ratio()))) ** 2))
        if self.linf is not None:
            tallest.append(math.floor(Fraction(self.linf) * steps + error))
        highest = min([*tallest, *whole, *map(math.isqrt, squares)])
        if highest < 1:
            raise ValueError("sensitivity must be at least one step of the encoding, got less")
        whole.append(d * highest)
        square = min([*squares, d * highest**2, min(whole) * highest])
        whole += [math.isqrt(d * square), square]  # Cauchy-Schwarz; |k| <= k^2 for integers
        return Shift(d, min(whole), square, highest)


@dataclass(frozen=True)
class Shift:
    """Integer bounds on the norms of a difference of integer vectors; that of l2 is squared."""

    dimension: int
    l1: int
    l2_squared: int
    linf: int

    def repeated(self, times: int) -> Shift:
        """Return the bounds of several sums, each with its own noise, even if users adapt."""
        return Shift(self.dimension * times, self.l1 * times, self.l2_squared * times, self.linf)

    @property
    def support(self) -> int:
        """Largest number of coordinates that can differ."""
        return min(self.dimension, self.l1, self.l2_squared)


def _best_order(divergence: Callable[[float], float], epsilon: float) -> Fraction:
    """Return the approximate order a of the smallest delta, for (a - 1) D_a in doubles."""
    from scipy import optimize

    def log_delta(log_excess: float) -> float:
        a = 1 + math.exp(log_excess)
        return divergence(a) - (a - 1) * epsilon + a * math.log1p(-1 / a) - math.log(a - 1)

    grid = np.linspace(-12, 23, 141)
    values = [log_delta(float(point)) for point in grid]
    best = int(np.argmin(values))
    near = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, grid.size - 1)]))
    found = optimize.minimize_scalar(
        log_delta, bounds=near, method="bounded", options={"xatol": 1e-7}
    )
    return Fraction(1 + math.exp(float(found.x)))


def _converted(a: Fraction, divergence_up: mpfr, epsilon: Fraction) -> float:
    """Return delta for an order and an upper bound of (a - 1) D_a, rounded up (CKS20, Prop. 12)."""
    with rounding(UP):
        # a ln(1 - 1/a), which is negative, and -ln(a - 1)
        shrink = exact(a, DOWN) * gmpy2.log(exact(1 - 1 / a, UP))
        if shrink > 0:
            shrink = mpfr(0)
    with rounding(DOWN):
        spent = exact((a - 1) * epsilon, DOWN) + gmpy2.log(exact(a - 1, DOWN))
    with rounding(UP):
        return min(1.0, float_up(gmpy2.exp(divergence_up + shrink - spent)))


_BITS = 24  # few, so that sampling from a rate or a variance takes integers of machine words


def _unit_of(value: Fraction) -> Fraction:
    """Return the distance of neighbouring numbers of `_BITS` significant bits."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return Fraction(2) ** (exponent - _BITS)


def _rounded(value: Fraction, *, up: bool) -> Fraction:
    unit = _unit_of(value)
    return unit * (math.ceil(value / unit) if up else math.floor(value / unit))


def _largest(proved: Callable[[Fraction], bool], good: Fraction) -> Fraction:
    """Return the largest number of `_BITS` bits that is proved, from one that is."""
    bad = 2 * good
    while proved(bad):
        good, bad = bad, 2 * bad
    while bad - good > _unit_of(good):
        middle = _rounded((good + bad) / 2, up=False)
        if middle == good:
            break
        good, bad = (middle, bad) if proved(middle) else (good, middle)
    return good


METHODS = ("pure", "composition", "renyi")  # the three bounds for discrete Laplace noise


def _log_cosh(x: float) -> float:
    x = abs(x)
    return x * x / 2 if x < 1e-5 else x + math.log1p(math.exp(-2 * x)) - math.log(2)


def _log_cosh_up(x: mpfr) -> mpfr:
    """Return ln cosh x for x >= 0, rounded up; written so that cosh cannot overflow."""
    with rounding(DOWN):
        ln2, twice = gmpy2.const_log2(), 2 * x
    with rounding(UP):
        return (x - ln2) + gmpy2.log1p(gmpy2.exp(-twice))


def _renyi_delta(epsilon: Fraction, rate: Fraction, shift: Shift) -> float:
    """Return the delta of s coordinates with u = r^2 l2^2 / s each."""
    s = shift.support
    each = rate * rate * shift.l2_squared / s
    if each > 1 << 900:
        return 1.0  # far beyond doubles, and any use
    root = math.sqrt(each)

    def divergence(order: float) -> float:
        return s * (_log_cosh((order - 0.5) * root) - _log_cosh(root / 2))

    order = _best_order(divergence, float(epsilon))
    with rounding(DOWN):
        low = gmpy2.log(gmpy2.cosh(gmpy2.sqrt(exact(each, DOWN)) / 2))
    with rounding(UP):
        high = _log_cosh_up(gmpy2.sqrt(exact(each, UP)) * exact(order - Fraction(1, 2), UP))
        divergence_up = s * (high - low)
    return _converted(order, divergence_up, epsilon)


def composition_delta(epsilon: Fraction, each: Fraction, count: int) -> float:
    """Return the delta of ``count`` independent responses with e = ``each``, rounded up."""
    if count * each <= epsilon:
        return 0.0
    if count > MAX_COORDINATES or each > 700:
        return 1.0
    return copies_delta(round_down(epsilon), count, round_up(each))


def laplace_delta(epsilon: Fraction, rate: Fraction, shift: Shift, method: str) -> float:
    """Return the delta of discrete Laplace noise by one of ``METHODS``, rounded up."""
    if method == "pure":
        return 0.0 if rate * shift.l1 <= epsilon else 1.0
    if method == "composition":
        return composition_delta(epsilon, rate * shift.linf, shift.support)
    return _renyi_delta(epsilon, rate, shift)


@dataclass(frozen=True)
class NoiseRate:
    """A rate of discrete Laplace noise, per integer step, and what is proved for it.

    ``method`` is the bound that proves it, and ``delta`` is rounded up (0.0 for "pure").
    """

    rate: Fraction
    method: str
    delta: float


@lru_cache(maxsize=256)
def best_rate(epsilon: Fraction, delta: Fraction, shift: Shift) -> NoiseRate:
    """Return the largest rate that a method proves (epsilon, delta)-private for a shift.

    At least epsilon / l1, exactly; larger ones are rounded down to 24 bits.
    """
    best = NoiseRate(epsilon / shift.l1, "pure", 0.0)
    # the quick method first: its result is the floor of the other
    for method in ("renyi", "composition") if delta else ():

        def proved(rate: Fraction, method: str = method) -> bool:
            return Fraction(laplace_delta(epsilon, rate, shift, method)) <= delta

        above = _rounded(best.rate, up=False) + _unit_of(best.rate)
        if proved(above):
            rate = _largest(proved, above)
            best = NoiseRate(rate, method, laplace_delta(epsilon, rate, shift, method))
    return best


@lru_cache(maxsize=256)
def least_variance(epsilon: Fraction, delta: Fraction, l2_squared: int) -> Fraction:
    """Return a private variance parameter of discrete Gaussian noise, rounded up to 24 bits.

    About l2^2 / mu^2 + 1/12 squared steps, where Gaussian noise needs l2^2 / mu^2.
    """
    mu = Fraction(gaussian_mu(epsilon, delta))
    with rounding(DOWN):
        middle = gmpy2.erf(gmpy2.sqrt(exact(mu * mu / (8 * l2_squared), DOWN)))
        circle = 2 * gmpy2.const_pi() * middle * middle
    with rounding(UP):
        variance = 1 / circle
    return _rounded(Fraction(*map(int, variance.as_integer_ratio())), up=True)
