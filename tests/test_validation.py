"""Directed rounding of budgets."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos._validation import down, up


@given(st.fractions(-(10**6), 10**6))
def test_directed_rounding_takes_the_nearest_double_on_its_side(value: Fraction) -> None:
    low, high = down(value), up(value)
    assert Fraction(low) <= value <= Fraction(high)
    if Fraction(low) == value:
        assert low == high
    else:
        assert math.nextafter(low, math.inf) == high


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        (Fraction(1, 10**400), 0.0, 5e-324),
        (-Fraction(1, 10**400), -5e-324, 0.0),
        (Fraction(1, 10), math.nextafter(0.1, 0), 0.1),  # the double is the larger one
        (Fraction(0), 0.0, 0.0),
    ],
)
def test_directed_rounding_at_the_smallest_doubles(
    value: Fraction, low: float, high: float
) -> None:
    assert (down(value), up(value)) == (low, high)
