"""Real arithmetic rounded in a chosen direction, for numbers that must be proved bounds."""

from __future__ import annotations

import math
from fractions import Fraction

import gmpy2
from gmpy2 import mpfr, mpq

PRECISION = 256

DOWN = gmpy2.RoundDown  # results are at most the true value
UP = gmpy2.RoundUp  # results are at least the true value
NEAREST = gmpy2.RoundToNearest


def rounding(direction: int, precision: int = PRECISION) -> gmpy2.context:
    """Return a new context, for one ``with``, in which every operation rounds in one direction.

    An expression is a bound in that direction as long as each operand enters with the right sign.
    Nothing is computed, converted or formatted outside one: there the caller's context is in force.
    """
    return gmpy2.context(precision=precision, round=direction)


def rational(value: Fraction | int) -> mpq:
    """Return a rational as gmpy2's.

    Never pass gmpy2 a Fraction: in its properties, which are Python code, a KeyboardInterrupt would
    become a SystemError.
    """
    return mpq(value.numerator, value.denominator)


def exact(value: Fraction | int, direction: int) -> mpfr:
    """Return a rational, rounded once."""
    with rounding(direction):
        return mpfr(rational(value))


def exp_down(exponent: Fraction) -> Fraction:
    """Return a rational that is at most e^exponent, to 256 bits."""
    with rounding(DOWN):
        return fraction(gmpy2.exp(mpfr(rational(exponent))))


def fraction(value: mpfr) -> Fraction:
    """Return the exact value of a finite number."""
    return Fraction(*map(int, value.as_integer_ratio()))


def log2(value: Fraction | int, direction: int) -> mpfr:
    """Return log2 of a positive rational: monotone, so that both roundings go the same way."""
    with rounding(direction):
        return gmpy2.log2(mpfr(rational(value)))


def log2_e(direction: int) -> mpfr:
    """Return log2(e)."""
    with rounding(DOWN if direction == UP else UP):
        ln2 = gmpy2.const_log2()
    with rounding(direction):
        return 1 / ln2


def log10(value: mpfr | float) -> float:
    """Return a decimal logarithm, also of a number far below the smallest double."""
    with rounding(NEAREST):
        return float(gmpy2.log10(value))


def nearest(value: mpfr) -> float:
    """Return the float nearest to ``value``."""
    with rounding(NEAREST):
        return float(value)


def float_down(value: mpfr) -> float:
    """Return the largest float that is at most ``value``; comparisons are exact."""
    result = float(value)
    return math.nextafter(result, -math.inf) if result > value else result


def float_up(value: mpfr) -> float:
    """Return the smallest float that is at least ``value``; comparisons are exact."""
    result = float(value)
    return math.nextafter(result, math.inf) if result < value else result
