"""Directed arithmetic, and what becomes of Ctrl-C in the midst of it."""

from __future__ import annotations

import fractions

import gmpy2
import pytest

from ikos.counts.rounding import DOWN, UP, exact, log2, rational


def interrupted(*_):
    raise KeyboardInterrupt


# of this name, which is how gmpy2 knows a Fraction
Fraction = type(
    "Fraction",
    (fractions.Fraction,),
    {"numerator": property(interrupted), "denominator": property(interrupted)},
)


def test_rational_is_the_same_number():
    for value in (fractions.Fraction(-22, 7), fractions.Fraction(0), 5, -(1 << 300)):
        assert rational(value) == gmpy2.mpq(int(value * 7), 7)


@pytest.mark.parametrize(
    "convert",
    [
        rational,
        lambda value: exact(value, UP),
        lambda value: exact(value, DOWN),
        lambda value: log2(value, UP),
    ],
)
def test_an_interrupt_in_a_conversion_stays_one(convert):
    with pytest.raises(KeyboardInterrupt):
        convert(Fraction(1, 3))


def test_gmpy2_calls_the_properties():
    """It loses what is raised there, in the versions of today."""
    with pytest.raises((SystemError, KeyboardInterrupt)):
        gmpy2.mpq(Fraction(1, 3))
