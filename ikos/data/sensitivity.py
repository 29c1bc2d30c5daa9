"""Bounds on the shift of a sum of integer vectors by replacing one user, in three norms.

Replacing one user moves the sum by some k in Z^d with known bounds on its l1, l2 and l-infinity
norms (`Sensitivity`); `ikos.noise` has the noise that hides such a shift. Proofs:
:ref:`proof-vector-noise`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import gmpy2

from ikos._validation import InvalidValue, number
from ikos.numeric.rounding import UP, exact, fraction, rounding

_ROOTS_UP = 1 + Fraction(1, 1 << 52)  # a double that stands for a root is nearer below it

Real = int | float | Fraction


@dataclass(frozen=True)
class Sensitivity:
    """Bounds on the shift of a sum by replacing one user's vector, in three norms.

    Parameters
    ----------
    l1, l2, linf : float, optional
        Bounds on the sum of absolute values, the Euclidean norm, and the largest absolute value; at
        least one. Omitted and loose bounds follow from the others.
    proved : bool
        Whether you have a proof of them for all vectors that you pass; otherwise guarantees name
        them among their conditions. Vectors that visibly break them are refused in both cases, if
        they are in one array or, between parties, in one client's values.

    Examples
    --------
    >>> Sensitivity(l1=2, linf=1).steps(100)  # one-hot vectors of 100 coordinates
    Shift(dimension=100, l1=2, l2_squared=2, linf=1)
    """

    l1: Real | None = None
    l2: Real | None = None
    linf: Real | None = None
    proved: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        bounded = [name for name in ("l1", "l2", "linf") if getattr(self, name) is not None]
        if not bounded:
            raise InvalidValue("sensitivity", "must bound at least one of l1, l2, linf, got none")
        for name in bounded:
            object.__setattr__(self, name, number(name, getattr(self, name), above=0))

    def steps(
        self, dimension: int, *, scale: Real = 1, bias: Real | None = None, most: int | None = None
    ) -> Shift:
        """Return the tightest bounds for integer vectors; ValueError if they are below one step.

        ``scale`` is the steps of the encoding per unit of the norms. With a ``bias``, vectors are
        rounded to neighbouring steps, independently at random, and the expectation of a coordinate
        is off by at most half of it. No coordinate of a difference exceeds ``most``.
        """
        d, steps, off = dimension, Fraction(scale), Fraction(bias or 0)
        error = 0 if bias is None else 2 + off
        tallest = [] if most is None else [most]
        whole, squares, expected = [], [], None
        if self.l1 is not None:
            whole.append(math.floor(Fraction(self.l1) * steps + d * error))
        if self.l2 is not None:
            with rounding(UP):
                root = fraction(gmpy2.sqrt(gmpy2.mpfr(d)))
            l2 = Fraction(self.l2) * _ROOTS_UP * steps
            squares.append(math.floor((l2 + root * error) ** 2))
            expected = None if bias is None else l2 + root * off
        if self.linf is not None:
            tallest.append(math.floor(Fraction(self.linf) * steps + error))
        highest = min([*tallest, *whole, *map(math.isqrt, squares)])
        if highest < 1:
            raise InvalidValue("sensitivity", "must be at least one step of the encoding, got less")
        whole.append(d * highest)
        square = min([*squares, d * highest**2, min(whole) * highest])
        whole += [math.isqrt(d * square), square]  # Cauchy-Schwarz; |k| <= k^2 for integers
        return Shift(d, min(whole), square, highest, expected)


@dataclass(frozen=True)
class Shift:
    """Integer bounds on the norms of a difference of integer vectors; that of l2 is squared.

    At most ``moved`` coordinates differ, by default all. ``expected`` bounds the l2 norm of the
    expectation of vectors that are rounded at random, in each of several ``sums``.
    """

    dimension: int
    l1: int
    l2_squared: int
    linf: int
    expected: Fraction | None = field(default=None, repr=False)
    sums: int = field(default=1, repr=False)
    moved: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "moved", self.moved or self.dimension)

    def repeated(self, times: int) -> Shift:
        """Return the bounds of several sums, each with its own noise, even if users adapt."""
        return Shift(
            self.dimension * times, self.l1 * times, self.l2_squared * times, self.linf,
            self.expected, times, self.moved * times,
        )  # fmt: skip

    def likely(self, failing: Fraction) -> tuple[int, Fraction]:
        """Return a bound on the squared l2 norm, and the probability with which it may fail.

        That is ``failing``, for all sums together, or 0: docs/skellam.md, "Rounding".
        """
        if self.expected is None:
            return self.l2_squared, Fraction(0)
        d, mean = self.dimension // self.sums, exact(self.expected, UP)
        with rounding(UP):
            level = gmpy2.log(exact(2 * self.sums / failing, UP))
            moved = mean * mean + 2 * mean * gmpy2.sqrt(level)
            square = self.sums * int(moved + d / 2 + gmpy2.sqrt(8 * d * level))
        return min((square, failing), (self.l2_squared, Fraction(0)))
