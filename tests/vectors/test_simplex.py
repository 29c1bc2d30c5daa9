"""The projection onto the simplex: against a general optimizer, and by what makes it unique."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from ikos.statistics import projected_frequencies
from ikos.statistics.histograms import project_simplex

VECTORS = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30).map(np.array)


@given(VECTORS)
def test_the_projection_meets_the_optimality_conditions(y):
    """Inside the simplex, y minus the point is one number where it is positive, less elsewhere."""
    point = project_simplex(y)
    scale = 1e-9 * (1 + np.abs(y).max())
    assert point.min() >= 0
    assert abs(point.sum() - 1) <= scale * len(y)
    gap = y - point
    support = point > 0
    assert np.ptp(gap[support]) <= scale
    assert (gap[~support] <= gap[support].min() + scale).all()


@pytest.mark.parametrize("seed", range(5))
def test_a_general_optimizer_finds_the_same(seed):
    y = np.random.default_rng(seed).normal(0.2, 0.5, 7)
    found = minimize(
        lambda x: ((x - y) ** 2).sum(),
        np.full(7, 1 / 7),
        jac=lambda x: 2 * (x - y),
        bounds=[(0, 1)] * 7,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-15},
    )
    np.testing.assert_allclose(project_simplex(y), found.x, atol=1e-6)


@given(VECTORS)
def test_points_of_the_simplex_stay(y):
    inside = np.abs(y) + 0.1
    inside /= inside.sum()
    np.testing.assert_allclose(project_simplex(inside), inside, atol=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("y", "point"),
    [
        ([1e15, 1e15, -1e15], [0.5, 0.5, 0.0]),
        ([3.0], [1.0]),
        ([-5.0, -5.0, -5.0, -5.0], [0.25] * 4),
        ([1e308, -1e308], [1.0, 0.0]),
    ],
)
def test_huge_and_tied_numbers(y, point):
    assert project_simplex(np.array(y)).tolist() == point


def test_frequencies_keep_their_shape_and_sum():
    given_ = np.random.default_rng(0).normal(0.3, 0.5, (9, 2))
    found = projected_frequencies(given_, 4)
    assert found.shape == (9, 2)
    assert found.sum() == pytest.approx(4)
    np.testing.assert_allclose(found.reshape(-1), 4 * project_simplex(given_.reshape(-1) / 4))
    found = projected_frequencies([[1e308, -1e308], [0.0, 0.0]], 2)
    assert found.tolist() == [[2.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("y", [["0.5", "1"], [True, False], [1j, 0.5], [None, 0.5]])
def test_what_is_no_number_is_refused(y):
    with pytest.raises(TypeError, match="frequencies must hold real numbers"):
        projected_frequencies([y], 1)


@pytest.mark.parametrize("sparsity", [-1, 0, 4])
def test_a_sparsity_is_a_number_of_keys(sparsity):
    with pytest.raises(ValueError, match=f"sparsity must be at .*, got {sparsity}"):
        projected_frequencies(np.full((3, 2), 0.25), sparsity)


@pytest.mark.parametrize(
    ("frequencies", "words"),
    [
        ([0.5, 0.5], r"frequencies must have shape \(d, 2\), got \(2,\)"),
        (np.zeros((3, 3)), "frequencies must have shape"),
        (np.zeros((0, 2)), "frequencies must have shape"),
        ([[math.nan, 0.5]], "frequencies must be finite, got nan"),
        (np.ma.array([[0.5, 9.0]], mask=[[False, True]]), "frequencies must not hold masked"),
    ],
)
def test_frequencies_are_checked(frequencies, words):
    with pytest.raises(ValueError, match=words):
        projected_frequencies(frequencies, 1)
