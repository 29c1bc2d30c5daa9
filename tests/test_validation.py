"""Directed rounding of budgets, and errors that programs read."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos import Box, InvalidType, InvalidValue
from ikos._validation import floating, integer, real, round_down, round_up
from ikos.counts import message_count


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


def test_errors_name_the_parameter() -> None:
    for value, kind in ((0, InvalidValue), ("1", InvalidType)):
        with pytest.raises(kind) as caught:
            integer("n", value, low=1)
        error = caught.value
        assert isinstance(error, ValueError if kind is InvalidValue else TypeError)
        assert (error.parameter, error.row) == ("n", None)
        assert str(error) == f"n {error.what}"
    with pytest.raises(InvalidType) as caught:
        real("x", [[1, 2], [3, "4"]], first=10)
    assert (caught.value.parameter, caught.value.row) == ("x[11, 1]", 11)
    with pytest.raises(InvalidValue) as refused:
        Box(2).values([[0, 1], [1, 2]], first=10)
    assert (refused.value.parameter, refused.value.row) == ("x[11, 1]", 11)


def test_errors_go_from_process_to_process() -> None:
    with pytest.raises(InvalidValue) as caught:
        message_count(10, 2**16, 40, analysis="balle2020")
    advice = [("show_values", True, "lists them")]
    for error in (caught.value, InvalidType("x[3]", "must be new", row=3, advice=advice)):
        found = pickle.loads(pickle.dumps(error))
        assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))
