"""Directed rounding of budgets."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos._validation import floating, round_down, round_up


@given(st.fractions(-(10**6), 10**6))
def test_directed_rounding_takes_the_nearest_double_on_its_side(value: Fraction) -> None:
    low, high = round_down(value), round_up(value)
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
    assert (round_down(value), round_up(value)) == (low, high)


def test_rationals_beyond_the_doubles_are_infinite() -> None:
    assert floating(Fraction(1, 3)) == 1 / 3
    assert floating(Fraction(2**1000 - 1)) == 2.0**1000
    assert floating(Fraction(2**1000)) == math.inf
    assert floating(Fraction(2**5000, 3**50)) == math.inf
    assert floating(Fraction(2**5000, 3**3000)) == pytest.approx(
        math.exp(5000 * math.log(2) - 3000 * math.log(3)), rel=1e-9
    )
