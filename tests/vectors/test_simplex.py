"""The projection onto the simplex, by an optimizer and by what makes it unique; errors."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from ikos.statistics import (
    maximum_absolute_error,
    projected_frequencies,
    total_variation_error,
)
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


@pytest.mark.parametrize(
    ("frequencies", "sparsity", "words"),
    [
        *(([y], 1, "frequencies must hold real numbers")
          for y in (["0.5", "1"], [True, False], [1j, 0.5], [None, 0.5])),
        *((np.full((3, 2), 0.25), s, f"sparsity must be at .*, got {s}") for s in (-1, 0, 4)),
        ([0.5, 0.5], 1, r"frequencies must have shape \(d, 2\), got \(2,\)"),
        (np.zeros((3, 3)), 1, "frequencies must have shape"),
        (np.zeros((0, 2)), 1, "frequencies must have shape"),
        ([[math.nan, 0.5]], 1, "frequencies must be finite, got nan"),
        (np.ma.array([[0.5, 9.0]], mask=[[0, 1]]), 1, "frequencies must not hold masked"),
    ],
    ids=range(12),
)  # fmt: skip
def test_frequencies_and_sparsities_are_checked(frequencies, sparsity, words):
    with pytest.raises((TypeError, ValueError), match=words):
        projected_frequencies(frequencies, sparsity)


# Errors of frequencies


@given(st.integers(1, 4).flatmap(lambda d: st.tuples(*[st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=d, max_size=d)] * 2)))  # fmt: skip
def test_errors_of_frequencies_are_distances_of_vectors(pair):
    """The total variation error is the largest difference of any signed sum."""
    values, truth = np.array(pair[0]), np.array(pair[1])
    away = (values - truth).ravel()
    signs = np.array(list(product((-1, 1), repeat=away.size)))
    assert total_variation_error(values, truth) == pytest.approx((signs @ away).max())
    assert maximum_absolute_error(values, truth) == max(away.max(), -away.min())
    assert total_variation_error(truth, truth) == maximum_absolute_error(truth, truth) == 0


def test_errors_of_disjoint_distributions():
    """2s at most, where s events of each user are all guessed wrong."""
    truth, guess = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    assert total_variation_error(guess, truth) == 4
    assert maximum_absolute_error(guess, truth) == 1
    assert total_variation_error([0.5, 0.5], [1, 0]) == 1


@pytest.mark.parametrize(
    ("frequencies", "truth", "words"),
    [
        ([0.5, 0.5], [[0.5, 0.5]], r"frequencies must have shape \(1, 2\), got \(2,\)"),
        ([math.inf, 0.5], [0.5, 0.5], "frequencies must be finite, got inf"),
        ([0.5, 0.5], [0.5, math.nan], "truth must be finite, got nan"),
        ([0.5, 0.5], ["0.5", "1"], "truth must hold real numbers"),
    ],
    ids=range(4),
)
@pytest.mark.parametrize("error", [total_variation_error, maximum_absolute_error])
def test_frequencies_of_errors_are_checked(error, frequencies, truth, words):
    with pytest.raises((TypeError, ValueError), match=words):
        error(frequencies, truth)
