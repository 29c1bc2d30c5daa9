"""Public bounds: what is a value, and the way to [0, 1] and back."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ikos.data.domains import MAX_BOUND, MAX_INTEGER, Bounds, whole

ENDS = st.floats(-1e100, 1e100)


@pytest.mark.points(0)
@given(ENDS, ENDS, st.data())
def test_units_are_within_0_and_1_and_monotone(
    lower: float, upper: float, data: st.DataObject
) -> None:
    """Subtraction and division may round, but never to outside, and never out of order."""
    assume(upper - lower >= 1e-100)
    bounds = Bounds(lower, upper)
    inside = data.draw(st.lists(st.floats(lower, upper), min_size=1, max_size=20))
    x = np.sort([lower, *inside, upper])
    unit = bounds.unit(bounds.values(x))
    assert unit[0] == 0
    assert unit[-1] == 1
    assert (np.diff(unit) >= 0).all()


@given(
    st.integers(-(10**6), 10**6),
    st.integers(1, 10**6),
    st.fractions(0, 10**6),
    st.integers(1, 10**9),
)
def test_totals_are_exact_but_for_one_rounding(
    lower: int, width: int, parts: Fraction, users: int
) -> None:
    bounds = Bounds(lower, lower + width)
    assert bounds.total(parts, users) == float(users * lower + width * parts)


@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=50))
def test_there_and_back(steps: list[int]) -> None:
    bounds = Bounds(-3, 5)
    x = np.array(steps) / 2**20 * 8 - 3  # exact
    unit = bounds.unit(bounds.values(x))
    parts = sum(map(Fraction, unit), Fraction(0))
    assert bounds.total(parts, len(steps)) == float(sum(map(Fraction, x), Fraction(0)))


def test_width_in_doubles_is_not_used_for_totals() -> None:
    """0.3 - 0.1 rounds; the sum of a million upper ends must not show it a million times."""
    bounds = Bounds(0.1, 0.3)
    assert bounds.total(10**6, 10**6) == float(10**6 * Fraction(0.3))


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([0, 1], [0.0, 1.0]),
        (np.array([0, 1], dtype=np.uint8), [0.0, 1.0]),
        (np.array([0.5], dtype=np.float32), [0.5]),
        (np.ma.masked_array([0.5, 0.25], [False, False]), [0.5, 0.25]),
        ([], []),
        (range(2), [0.0, 1.0]),
    ],
    ids=str,
)
def test_what_values_are(x: Any, expected: list[float]) -> None:
    values = Bounds(0, 1).values(x)
    assert values.dtype == np.float64
    assert values.tolist() == expected


@pytest.mark.parametrize(
    ("x", "error", "said"),
    [
        ([0.5, math.nan], ValueError, r"x\[1\] must be in \[0, 1\], not missing$"),
        ([0.5, 1.5, -3], ValueError, r"x\[1\] must be in \[0, 1\]$"),
        ([math.inf], ValueError, r"x\[0\] must be in"),
        ([-5e-324], ValueError, r"x\[0\] must be in"),
        ([math.nextafter(1, 2)], ValueError, r"x\[0\] must be in"),
        ([[0.5]], ValueError, r"one-dimensional, got shape \(1, 1\)"),
        (0.5, ValueError, r"one-dimensional, got shape \(\)"),
        (["0.5"], TypeError, r"x\[0\] must be a float, .* got str$"),
        (np.array(["0.5"]), TypeError, r"x\[0\] must be a float, .* got str_$"),
        ([1j], TypeError, r"x\[0\] must be a float, .* got complex$"),
        (
            [2**70],
            TypeError,
            r"x\[0\] must be a float, or an integer of 64 bits at most, got int$",
        ),
        (np.ma.masked_array([0.5], [True]), ValueError, "masked"),
        ([0.5, 1, None], ValueError, r"x\[2\] must be in \[0, 1\], not missing$"),
        ([0.5, "1"], TypeError, r"x\[1\] must be a float, .* got str$"),
        ([0.5, Fraction(1, 2)], TypeError, r"x\[1\] must be a float, .* got Fraction$"),
        ([Decimal("NaN")], ValueError, r"x\[0\] must be in .*, not missing$"),
        ([Decimal("inf")], TypeError, r"x\[0\] must be a float, .* got Decimal$"),
        ([1, -(2**63) - 1], TypeError, r"x\[1\] must be a float, .* got int$"),
        (None, TypeError, r"x must be an array, got NoneType$"),
    ],
    ids=str,
)
def test_what_values_are_not(x: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        Bounds(0, 1).values(x)


@pytest.mark.parametrize(
    "x",
    [
        [True, False, 1],
        [Decimal(1), Decimal("0E+3"), Decimal("1.0")],
        [Fraction(1), Fraction(0), 1.0],
        np.array([True, False, True]),
        np.array([1, 0.0, np.True_], dtype=object),
        pd.DataFrame({"a": [True, False, True]}),
        pd.Series([1, 0.0, True], dtype=object),
    ],
    ids=repr,
)
def test_integers_of_any_kind(x: Any) -> None:
    assert Bounds(0, 1).values(x).tolist() == [1, 0, 1]


def test_a_data_frame_of_two_columns_is_no_column() -> None:
    with pytest.raises(ValueError, match=r"shape \(1, 2\): give one value per user"):
        Bounds(0, 1).values(pd.DataFrame({"a": [1], "b": [1]}))


@pytest.mark.parametrize(
    ("lower", "upper", "error", "said"),
    [
        (0, 0, ValueError, "upper must be greater than lower = 0.0, got 0.0"),
        (1, 0, ValueError, "upper must be greater"),
        (math.nan, 1, ValueError, "lower must be finite, got nan"),
        (0, math.inf, ValueError, "upper must be finite"),
        (-1e101, 0, ValueError, "lower must be at least"),
        (0, 1e101, ValueError, "upper must be at most"),
        (0, 1e-101, ValueError, "upper - lower must be at least 1e-100"),
        ("0", 1, TypeError, "lower must be"),
        (False, 1, TypeError, "lower must be a number, got the boolean False"),
        (0, None, TypeError, "upper must be"),
    ],
)
def test_what_bounds_are_not(lower: Any, upper: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        Bounds(lower, upper)


def test_bounds_are_values() -> None:
    assert Bounds(0, 1) == Bounds(0.0, Fraction(1))
    assert hash(Bounds(0, 1)) == hash(Bounds(0.0, 1.0))
    assert Bounds(0, 1) != Bounds(0, 2)
    assert Bounds(-MAX_BOUND, MAX_BOUND).width == 2 * MAX_BOUND
    with pytest.raises(AttributeError):
        Bounds(0, 1).lower = 5.0  # type: ignore[misc]


# Integers


@given(st.integers(-MAX_INTEGER, MAX_INTEGER), st.integers(-MAX_INTEGER, MAX_INTEGER))
def test_integers_take_a_step_each(one: int, other: int) -> None:
    """As many steps as integers, less one; also where the doubles' spacing is near 1."""
    assume(one != other)
    lower, upper = min(one, other), max(one, other)
    bounds, steps = Bounds(lower, upper), upper - lower
    assert bounds.whole_steps() == bounds.whole_steps(steps) == steps
    for wrong in (steps - 1, steps + 1, 0):
        with pytest.raises(ValueError, match=f"precision must be upper - lower = {steps} where"):
            bounds.whole_steps(wrong)


@pytest.mark.parametrize(
    ("lower", "upper", "said"),
    [
        (0.5, 10, "lower must be an integer of at most 2^52 where values are integers, got 0.5"),
        (0, 9.5, "upper must be an integer of at most 2^52 where values are integers, got 9.5"),
        (-(2.0**52) - 1, 0, "lower must be"),
        (0, 2.0**52 + 1, "upper must be"),
        (0, 1e100, "upper must be"),
    ],
)
def test_bounds_of_integers_are_integers(lower: float, upper: float, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        Bounds(lower, upper).whole_steps()
    assert str(caught.value).startswith(said)


@given(st.lists(st.integers(-MAX_INTEGER, MAX_INTEGER), max_size=5), st.integers(-5, 5))
def test_whole_values_are_returned_and_the_first_other_is_named(x: list[int], half: int) -> None:
    values = np.array(x, dtype=np.float64)
    assert whole(values) is values
    broken = np.array([*x, half + 0.5, half + 0.25])
    with pytest.raises(ValueError, match=rf"x\[{len(x)}\] must be an integer$"):
        whole(broken)


def test_what_is_no_number_in_a_block_is_named_by_its_place_among_all() -> None:
    with pytest.raises(TypeError, match=r"x\[101\] must be a float, .* got str$"):
        Bounds(0, 1).values([0.5, "1"], first=100)
