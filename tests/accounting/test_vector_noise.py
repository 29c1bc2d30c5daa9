"""Sensitivities of integer vectors, and discrete Gaussian noise against exact laws."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos.accounting.vector_noise import (
    Sensitivity,
    Shift,
    gaussian_delta,
    least_variance,
)


def proved_gaussian(epsilon: float, variance: float | Fraction, l2_squared: float) -> float:
    return gaussian_delta(Fraction(epsilon), Fraction(variance), Fraction(l2_squared))


# Exact hockey-stick divergences of discrete Gaussian noise, by its law


def gaussian_law(variance: float, reach: int) -> Any:
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    law = np.exp(-k * k / (2 * variance))
    return law / law.sum()


def exact_delta(law: Any, k: tuple[int, ...], epsilon: float) -> float:
    """Return the divergence of product laws shifted by k, up to what the laws' grids leave out."""
    most = max(map(abs, k))
    padded = np.pad(law, most)
    p, q = np.ones(1), np.ones(1)
    for shift in k:
        p = np.multiply.outer(p, padded).ravel()
        q = np.multiply.outer(q, np.roll(padded, shift)).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("k", [(1, 0), (1, 3)])
@pytest.mark.parametrize("variance", [0.5, 30.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_gaussian_delta_covers_the_exact_one(
    k: tuple[int, int], variance: float, epsilon: float
) -> None:
    true = exact_delta(gaussian_law(variance, 80), k, epsilon)
    square = sum(x * x for x in k)
    assert true <= proved_gaussian(epsilon, variance, square) + 1e-12
    assert true > proved_gaussian(epsilon, 4 * variance, square) or true < 1e-6


@pytest.mark.parametrize("square", [3, 5, 6, 7, 11, 15])
def test_doubles_that_stand_for_roots_are_not_below_them(square: int) -> None:
    """A norm that is an irrational root is given as a double, which may be the one below."""
    assert Sensitivity(l2=math.sqrt(square)).steps(100).l2_squared == square


# Sensitivities


@given(
    st.lists(st.integers(-9, 9), min_size=1, max_size=6).filter(any),
    st.sampled_from(["l1", "l2", "linf"]),
)
def test_norms_that_follow_hold(k: list[int], known: str) -> None:
    norms = {
        "l1": sum(map(abs, k)),
        "l2": math.sqrt(sum(x * x for x in k)),
        "linf": max(map(abs, k)),
    }
    shift = Sensitivity(**{known: norms[known]}).steps(len(k))
    assert shift.l1 >= norms["l1"]
    assert shift.l2_squared >= sum(x * x for x in k)
    assert shift.linf >= norms["linf"]


@given(
    st.lists(st.tuples(*[st.floats(-3, 3)] * 4), min_size=1, max_size=5),
    st.integers(1, 50),
)
def test_rounding_of_both_vectors_is_covered(
    entries: list[tuple[float, float, float, float]], scale: int
) -> None:
    """Any rounding to a neighbouring step, of both vectors, stays within the shift."""
    x, y, up, down = (np.array(column) for column in zip(*entries, strict=True))
    difference = np.abs(x - y)
    if difference.max() < 1e-9:
        return
    sensitivity = Sensitivity(
        l1=float(difference.sum()) * (1 + 1e-12),
        l2=float(np.linalg.norm(difference)) * (1 + 1e-12),
        linf=float(difference.max()) * (1 + 1e-12),
    )
    shift = sensitivity.steps(len(entries), scale=scale, rounding_error=2)
    first = np.where(up > 0, np.ceil(x * scale), np.floor(x * scale))
    second = np.where(down > 0, np.ceil(y * scale), np.floor(y * scale))
    k = np.abs(first - second).astype(int)
    assert k.sum() <= shift.l1
    assert (k * k).sum() <= shift.l2_squared
    assert k.max() <= shift.linf


def test_shifts_are_made_tight() -> None:
    assert Sensitivity(l1=2, linf=1).steps(100) == Shift(100, 2, 2, 1)
    assert Sensitivity(l2=math.sqrt(2)).steps(100) == Shift(100, 2, 2, 1)
    assert Sensitivity(linf=3).steps(4) == Shift(4, 12, 36, 3)
    assert Sensitivity(linf=9).steps(4, most=3) == Shift(4, 12, 36, 3)


# Inverses


@pytest.mark.parametrize("l2", [1, 7.5, 10**6])
def test_variances_are_proved_and_hardly_smaller_ones_are_not(l2: float) -> None:
    for epsilon, delta in ((1, 1e-8), (0.1, 1e-5), (5, 1e-3)):
        variance = least_variance(Fraction(epsilon), Fraction(delta), Fraction(l2) ** 2)
        assert proved_gaussian(epsilon, variance, l2**2) <= delta
        assert proved_gaussian(epsilon, variance * Fraction(999_999, 10**6), l2**2) > delta


# Bad input


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "at least one of l1, l2, linf"),
        ({"l1": 0}, "l1 must be"),
        ({"linf": -1}, "linf must be"),
    ],
)
def test_sensitivities_that_are_none(given: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sensitivity(**given)


def test_sensitivities_below_a_step() -> None:
    with pytest.raises(ValueError, match="at least one step"):
        Sensitivity(l1=0.5).steps(3)
