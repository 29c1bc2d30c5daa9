"""Arrays scaled down into a ball: never outside it, in either precision."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ikos import Ball
from ikos.vectors import clip

TYPES = st.sampled_from([np.float32, np.float64])


@st.composite
def inputs(draw: Any) -> Any:
    """Return an array of any finite entries."""
    kind = draw(TYPES)
    width = np.dtype(kind).itemsize * 8
    entries = st.floats(width=width, allow_nan=False, allow_infinity=False)
    return draw(arrays.arrays(kind, arrays.array_shapes(max_dims=3, max_side=5), elements=entries))


def squared(x: Any) -> Fraction:
    return sum((Fraction(float(entry)) ** 2 for entry in x.flat), Fraction(0))


@given(inputs(), st.floats(1e-30, 1e30))
def test_the_result_is_in_the_ball(x: Any, radius: float) -> None:
    """Exactly, without the ball's tolerance, and rounded to float32 too."""
    clipped = clip(x, radius)
    assert (clipped.shape, clipped.dtype) == (x.shape, x.dtype)
    ball = Ball(x.size, radius, shape=x.shape)
    for result in (clipped, clipped.astype(np.float32)):
        ball.values([result])
        assert squared(result) <= Fraction(radius) ** 2


@given(inputs(), st.floats(1e-30, 1e30))
def test_nothing_but_the_length_changes_and_only_if_it_must(x: Any, radius: float) -> None:
    clipped, length = clip(x, radius), Fraction(radius) ** 2
    assert clipped is not x
    if squared(x) <= length * Fraction(1 - 2**-22):
        assert np.array_equal(clipped, x)
        return
    assert squared(clipped) >= length * Fraction(1 - 2**-20)
    # each entry's share of the length, to the precision and the smallest number of the type
    tiny = float(np.finfo(x.dtype).smallest_subnormal)
    units = x.astype(np.float64) / np.abs(x).max()
    expected = units / np.linalg.norm(units) * radius
    np.testing.assert_allclose(clipped, expected, rtol=1e-6, atol=tiny)


@pytest.mark.parametrize("size", [1, 3, 1000, 1 << 17])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_norms_just_above_the_radius(size: int, kind: Any) -> None:
    """Of which a scaling in single precision leaves many outside."""
    rng = np.random.default_rng(size)
    for _ in range(3):
        x = rng.standard_normal(size)
        x *= rng.uniform(1, 1 + 1e-7) / np.linalg.norm(x)
        Ball(size).value(clip(x.astype(kind), 1))
        Ball(size).value(clip(x.astype(kind), 1).astype(np.float32))


@pytest.mark.parametrize(
    "x",
    [
        np.full(4, np.finfo(np.float64).max),
        np.full(4, np.finfo(np.float32).max),
        np.array([np.finfo(np.float64).max, 5e-324, -1.0]),
        np.array([2**63 - 1, -(2**63)]),
        [3, 4],
    ],
    ids=str,
)
def test_extremes(x: Any) -> None:
    for radius in (1e-30, 1, 1e30):
        wanted = min(radius, math.hypot(*x))
        assert math.hypot(*clip(x, radius)) == pytest.approx(wanted, rel=1e-6, abs=0)


def test_small_arrays_stay_as_they_are() -> None:
    for x in (np.zeros((2, 3)), np.full(3, 5e-324), np.zeros(0), np.float32([1e-45])):
        assert np.array_equal(clip(x, 1e-30), x)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_entries_without_a_direction_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match=r"^x\[1, 0\] must be finite$"):
        clip([[1, 2], [bad, 4]], 1)


@pytest.mark.parametrize("radius", [0, 9e-31, 1.1e30, math.nan, "1", True])
def test_a_radius_out_of_range_is_refused(radius: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^radius must be"):
        clip([1.0], radius)


def test_what_are_not_numbers_is_refused() -> None:
    for x in (["a"], [1j], np.ma.masked_array([1.0], [True])):
        with pytest.raises((TypeError, ValueError), match=r"^x must"):
            clip(x, 1)
