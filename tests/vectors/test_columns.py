"""Statistics of columns: sensitivities against what vectors do, estimates, intervals, refusals.

Statistical tests have a proved false-alarm rate of at most 1e-9 each, at fixed sizes.
"""

from __future__ import annotations

import datetime
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from ikos import Ball, Box, PrivateVectorSum
from ikos.data.sensitivity import Sensitivity
from ikos.noise.laplace_noise import LaplaceNoise
from ikos.results.conditions import PROMISED
from ikos.results.confidence import clopper_pearson
from ikos.statistics import histograms, linear_statistics, means, variances
from ikos.statistics.columns import _SQUARES, _moved
from ikos.testing import DeterministicRandom

FALSE_ALARM = 1e-9
BUDGET: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}
W = float(_SQUARES)


def covers(hits: int, runs: int, level: float) -> bool:
    return clopper_pearson(hits, runs, 1 - Fraction(FALSE_ALARM))[1] >= level


def norms(moved: NDArray[np.float64]) -> tuple[float, float, float]:
    size = np.abs(moved)
    return float(size.sum()), float(np.linalg.norm(moved)), float(size.max())


def within(moved: NDArray[np.float64], promise: Any) -> bool:
    bounds = (promise.l1, promise.l2, promise.linf)
    return all(found <= float(bound) for found, bound in zip(norms(moved), bounds, strict=True))


# Histograms


def test_histograms_count() -> None:
    rng = np.random.default_rng(0)
    colours, sizes = rng.choice(["red", "blue"], 3000), rng.integers(0, 4, 3000)
    result = histograms(
        {"colour": colours, 7: sizes},
        {"colour": ["red", "blue", "green"], 7: range(5)},
        **BUDGET,
        rng=DeterministicRandom(1),
    )
    estimates, intervals = result.estimates(), result.intervals(1 - 1e-9, simultaneous=True)
    assert list(estimates) == ["colour", 7]
    for column, values in (("colour", colours), (7, sizes)):
        for label, estimate in estimates[column].items():
            low, high = intervals[column][label]
            assert low <= int((values == label).sum()) <= high
            assert estimate == (low + high) / 2
    assert result.guarantee.epsilon == 1
    assert result.private.domain.dimension == 8
    assert "colour: red" in str(result)


class Columns:
    """As a frame of Polars, which yields its columns, and not their names."""

    def __init__(self, columns: dict[Any, Any]) -> None:
        self.table, self.columns = columns, [*columns]

    def __iter__(self) -> Any:
        return map(self.__getitem__, self.table)

    def __getitem__(self, name: str) -> Any:
        return np.array(self.table[name])


def test_columns_may_come_as_a_data_frame() -> None:
    pa = pytest.importorskip("pyarrow")
    columns, categories = {"a": ["x", "y"] * 50, "b": [1, 1] * 50}, {"b": [1, 2], "a": ["x", "y"]}
    one, *others = (
        histograms(given, categories, **BUDGET, rng=DeterministicRandom(0)).estimates()
        for given in (columns, pd.DataFrame(columns), Columns(columns), pa.table(columns))
    )
    assert all(other == one for other in others)
    with pytest.raises(ValueError, match=r"names of the columns \['a'\], got \['b'\]"):
        histograms(pd.DataFrame({"a": ["x"]}), {"b": ["x"]}, **BUDGET)
    for other in (np.zeros((5, 2)), ["x", "y"]):
        with pytest.raises(TypeError, match="columns must be a mapping or a data frame, got"):
            histograms(other, {"a": ["x"]}, **BUDGET)  # type: ignore[arg-type]


def test_histograms_move_by_two_in_each_column() -> None:
    result = histograms(
        {"a": [1, 2] * 50, "b": [1, 2] * 50}, {"a": [1, 2], "b": [1, 2, 3]}, **BUDGET
    )
    protocol = PrivateVectorSum(100, result.private.domain, 1, 1e-6)
    assert protocol.encoding.shift(5).l1 == 4
    assert protocol.noise.kind == "laplace"
    assert isinstance(protocol.noise, LaplaceNoise)
    assert 0.99 / 4 <= protocol.noise.rate <= 1 / 4


@pytest.mark.parametrize(
    ("columns", "categories", "message"),
    [
        ({}, {}, "names of the columns"),
        ({"a": [1]}, {"b": [1]}, "names of the columns"),
        ({"a": [1]}, {"a": []}, "distinct and not empty"),
        ({"a": [1]}, {"a": [1, 1]}, "distinct and not empty"),
        ({"a": [3]}, {"a": [1, 2]}, r"columns\['a'\]\[0\] must be one of"),
        ({"a": [1, "1"]}, {"a": ["1", "a"]}, r"columns\['a'\]\[0\] must .*, got a different int"),
        ({"a": [[1]]}, {"a": [1]}, "got a different list"),
        ({"a": []}, {"a": [1]}, "at least one user"),
        ({"a": [1, 1], "b": [1]}, {"a": [1], "b": [1]}, "must hold 2 values"),
        ({"a": [datetime.date(2020, 1, 1)]}, {"a": ["2020-01-01"]}, "must be one of"),
        ({"a": np.array([[1], [1, 2], None], dtype=object)}, {"a": [1]}, r"\]\[0\] must be one"),
        ({"a": [1]}, {"a": [[1], [2]]}, "unhashable"),
        ({"a": [1]}, {"a": 5}, "must be a sequence"),
    ],
    ids=str,
)
def test_histograms_that_are_refused(columns: Any, categories: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        histograms(columns, categories, **BUDGET)


# Means


@pytest.fixture(scope="module")
def table() -> NDArray[np.float64]:
    rng = np.random.default_rng(2)
    return np.asarray(rng.uniform([18, -5, 0], [90, 5, 1e4], (400, 3)))


LOWER, UPPER = [0, -5, 0], [100, 5, 1e4]


@pytest.mark.points(0)
def test_means_are_unbiased_and_their_intervals_cover(table: NDArray[np.float64]) -> None:
    rng, runs = DeterministicRandom(3), 300
    hits = each = 0
    errors = []
    for _ in range(runs):
        result = means(table, lower=LOWER, upper=UPPER, **BUDGET, rng=rng)
        band = result.mean_interval(0.8, simultaneous=True)
        hits += int(((band.low <= table.mean(axis=0)) & (table.mean(axis=0) <= band.high)).all())
        band = result.interval(0.8)
        each += int(band.low[2] <= table.sum(axis=0)[2] <= band.high[2])
        errors.append((result.estimate - table.sum(axis=0)) / result.standard_error)
    assert covers(hits, runs, 0.8)
    assert covers(each, runs, 0.8)
    # clipped at 4: Hoeffding, and what clipping moves is at most 1/16
    assert np.abs(np.clip(errors, -4, 4).mean(axis=0)).max() < 1 / 16 + 8 * math.sqrt(
        math.log(2 / FALSE_ALARM) / (2 * runs)
    )
    assert 0.5 < float(np.mean(np.square(errors))) < 1.5


def test_noise_is_in_proportion_to_the_bounds(table: NDArray[np.float64]) -> None:
    result = means(table, lower=LOWER, upper=UPPER, **BUDGET)
    assert result.standard_error / [100, 10, 1e4] == pytest.approx(
        [result.standard_error[0] / 100] * 3
    )
    assert result.users == 400
    assert "mean 0" in str(result)
    assert PROMISED not in result.guarantee.conditions


# Variances


def test_squares_are_free() -> None:
    """And the bound in l1 norm is reached; with a weight of 1.7 they would not be."""
    a = np.linspace(-1, 1, 401)
    gap, squares = a[:, np.newaxis] - a, W * (a[:, np.newaxis] ** 2 - a**2)
    assert np.hypot(gap, squares).max() == pytest.approx(2, rel=1e-12)
    assert (np.abs(gap) + np.abs(squares)).max() == pytest.approx(
        (1 + 2 * W) ** 2 / (4 * W), rel=1e-4
    )
    assert np.abs(squares).max() <= 2


@pytest.mark.slow
def test_variances_are_near_and_their_intervals_cover(table: NDArray[np.float64]) -> None:
    rng, runs = DeterministicRandom(4), 200
    truth = table.var(axis=0)
    hits = each = 0
    estimates = []
    for _ in range(runs):
        result = variances(table, lower=LOWER, upper=UPPER, epsilon=5, delta=1e-6, rng=rng)
        band = result.interval(0.8, simultaneous=True)
        hits += int(((band.low <= truth) & (truth <= band.high)).all())
        band = result.interval(0.8)
        each += int(band.low[1] <= truth[1] <= band.high[1])
        estimates.append(result.estimate)
    assert covers(hits, runs, 0.8)
    assert covers(each, runs, 0.8)
    assert np.median(estimates, axis=0) == pytest.approx(truth, rel=0.1)
    assert result.means() == pytest.approx(table.mean(axis=0), rel=0.2, abs=1)
    assert "variance 0" in str(result)
    assert result.guarantee.epsilon == 5


def test_variances_of_extremes_are_exact_without_noise() -> None:
    x = np.array([[0.0, 7.0], [10.0, 7.0]] * 20)
    result = variances(
        x, lower=0, upper=10, epsilon=5000, delta=1e-2, messages=3, precision=1 << 20
    )
    assert result.estimate == pytest.approx([25, 0], abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("apart", [2, 4, 6, 1 << 20])
def test_bounds_that_are_few_roundings_apart(apart: int) -> None:
    """Their middle may not be a double: nothing is lost by that."""
    lower, upper = 2.0**53, 2.0**53 + apart
    x = np.array([[lower], [upper]] * 5000)
    result = variances(
        x, lower=lower, upper=upper, epsilon=50, delta=1e-2, rng=DeterministicRandom(12)
    )
    (low,), (high,) = result.interval(1 - FALSE_ALARM)
    assert low <= apart**2 / 4 <= high
    assert high - low < apart**2 / 10
    (low,), (high,) = means(
        x, lower=lower, upper=upper, **BUDGET, rng=DeterministicRandom(13)
    ).mean_interval(1 - FALSE_ALARM)
    assert low <= lower + apart // 2 <= high


def test_an_interval_of_variances_splits_the_risk() -> None:
    """Half of the risk for each of the two sums, and of that a part for each column."""
    x = np.array([[0.0, 1.0, 0.3], [1.0, 0.5, 0.2]] * 50)
    result = variances(x, lower=0, upper=1, **BUDGET, rng=DeterministicRandom(14))
    for simultaneous, parts in ((False, 2), (True, 6)):
        each = 1 - 0.2 / parts
        u = result.private.interval(each)
        first = u.low[:3] / 100, u.high[:3] / 100
        second = (u.low[3:] / W / 100 + 0.5, u.high[3:] / W / 100 + 0.5)
        largest = np.maximum(first[0] ** 2, first[1] ** 2)
        smallest = np.where(first[0] * first[1] > 0, np.minimum(first[0] ** 2, first[1] ** 2), 0)
        band = result.interval(0.8, simultaneous=simultaneous)
        assert band.low == pytest.approx((second[0] - largest) / 4, rel=1e-9)
        assert band.high == pytest.approx((second[1] - smallest) / 4, rel=1e-9)


def test_variances_promise_more_than_their_numbers_are_apart() -> None:
    """By more than the roundings of the largest of them."""
    x = np.array([[0.0], [1.0]] * 50)
    result = variances(x, lower=0, upper=1, **BUDGET, precision=1 << 40)
    protocol = PrivateVectorSum(
        100, Box(2, -1, 1), 1, 1e-6, precision=1 << 40,
        sensitivity=Sensitivity(l1=(1 + 2 * W) ** 2 / (4 * W), l2=2, linf=2),
    )  # fmt: skip
    ratio = result.private.error.coordinate.mean_square / protocol.error(100).coordinate.mean_square
    assert 1 + 1e-9 < ratio < 1 + 1e-6


@pytest.mark.parametrize("release", [means, variances])
@pytest.mark.parametrize(
    ("x", "lower", "upper", "error", "message"),
    [
        ([[1, 2]], 0, 1, ValueError, r"x\[0, 1\] must be between"),
        ([[1, math.nan]], 0, 1, ValueError, r"x\[0, 1\] must be between"),
        ([[1, 2]], [0, 0, 0], 5, ValueError, "lower must be a number or 2 of them"),
        ([[1, 2]], [0], 5, ValueError, "lower must be a number or 2 of them"),
        (np.ones((0, 2)), 0, 5, ValueError, r"x must have shape \(users, columns\)"),
        (np.ones((2, 0)), 0, 5, ValueError, r"x must have shape \(users, columns\)"),
        ([[1, 2]], 5, 5, ValueError, "upper must be greater"),
        ([[1, 2]], 0, math.inf, ValueError, "both within 1e.100"),
        ([[1, 2]], "0", 1, TypeError, "lower must hold real numbers"),
        ([1, 2], 0, 5, ValueError, "shape"),
        ([["1"]], 0, 5, TypeError, "must be a float"),
        ([[None]], 0, 5, ValueError, r"x\[0, 0\] must be .*, not missing$"),
    ],
)
def test_columns_that_are_refused(release, x, lower, upper, error, message):
    with pytest.raises(error, match=message):
        release(x, lower=lower, upper=upper, **BUDGET)


# Linear functions

MATRICES = [
    np.array([[1.0, 1, 1], [-1, 0, 1]]),
    np.array([[1.0, -2.0]]),
    np.random.default_rng(5).normal(size=(3, 25)),
    np.random.default_rng(6).normal(size=(25, 3)),
    np.random.default_rng(7).normal(size=(30, 30)),
    np.eye(4),
]


@pytest.mark.parametrize("matrix", MATRICES, ids=lambda m: str(m.shape))
@pytest.mark.parametrize("kind", ["box", "ball"])
def test_no_two_vectors_are_further_apart(matrix: NDArray[np.float64], kind: str) -> None:
    """Corners, or singular and coordinate directions, and random vectors."""
    d = matrix.shape[1]
    domain = Box(d, -1, 3) if kind == "box" else Ball(d, 2)
    reach, promise = _moved(matrix, domain)
    rng = np.random.default_rng(8)
    if kind == "box":
        differences = 4 * rng.choice([-1.0, 1.0], (300, d))
        differences = np.vstack([differences, 4 * np.sign(matrix), 4 * np.sign(matrix[:1] + 1e-9)])
    else:
        differences = rng.normal(size=(300, d))
        differences = np.vstack([differences, matrix, np.linalg.svd(matrix)[2]])
        differences *= 4 / np.linalg.norm(differences, axis=1, keepdims=True)
    found = np.array([norms(matrix @ row) for row in differences])
    assert all(within(matrix @ row, promise) for row in differences)
    assert found[:, 2].max() == pytest.approx(float(promise.linf))
    assert reach == pytest.approx(float(promise.linf) / 2)
    if kind == "ball":
        assert found[:, 1].max() == pytest.approx(float(promise.l2))


@pytest.mark.parametrize(
    "matrix", [MATRICES[0], MATRICES[1], MATRICES[5], MATRICES[3]], ids=lambda m: str(m.shape)
)
def test_few_coordinates_of_a_box_are_exact(matrix: NDArray[np.float64]) -> None:
    d = matrix.shape[1]
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=d)))
    found = np.array([norms(matrix @ corner) for corner in corners]).max(axis=0)
    promise = _moved(matrix, Box(d))[1]
    assert [float(promise.l1), float(promise.l2), float(promise.linf)] == pytest.approx(found)


def test_few_functions_are_exact_in_l1_by_duality() -> None:
    matrix = np.random.default_rng(9).normal(size=(2, 40))
    promise = _moved(matrix, Box(40))[1]
    # |a.x| + |b.x| is the larger of |(a + b).x| and |(a - b).x|
    a, b = matrix
    assert float(promise.l1) == pytest.approx(max(np.abs(a + b).sum(), np.abs(a - b).sum()))


@pytest.mark.slow
@pytest.mark.parametrize("domain", [Box(3, -1, 3), Ball(3, 2)], ids=str)
def test_linear_statistics_are_unbiased_and_covered(domain: Any) -> None:
    matrix = MATRICES[0]
    x = np.random.default_rng(10).uniform(-1, 1, (200, 3))
    truth = matrix @ x.sum(axis=0)
    rng, runs, hits = DeterministicRandom(11), 200, 0
    errors = []
    for _ in range(runs):
        result = linear_statistics(x, matrix, domain, **BUDGET, rng=rng)
        band = result.interval(0.8, simultaneous=True)
        hits += int(((band.low <= truth) & (truth <= band.high)).all())
        errors.append((result.estimate - truth) / result.standard_error)
    assert covers(hits, runs, 0.8)
    assert np.abs(np.clip(errors, -4, 4).mean(axis=0)).max() < 1 / 16 + 8 * math.sqrt(
        math.log(2 / FALSE_ALARM) / (2 * runs)
    )
    assert result.guarantee.epsilon == 1
    assert PROMISED not in result.guarantee.conditions


@pytest.mark.parametrize(
    ("weights", "domain", "error", "message"),
    [
        ([[1, 2]], Box(3), ValueError, "weights must have shape"),
        ([1, 2, 3], Box(3), ValueError, "weights must have shape"),
        ([[0, 0, 0]], Box(3), ValueError, "not all 0"),
        ([[1, math.nan, 0]], Box(3), ValueError, "finite"),
        ([["a", "b", "c"]], Box(3), TypeError, "real numbers"),
        ([[1, 2, 3]], 3, TypeError, "domain must be a Box or a Ball"),
        ([[1, 2, 3]], Ball(3, 0.1), ValueError, "norm of at most"),
        ([[1e50, 0, 0]], Box(3, -1e60, 1e60), ValueError, "lower must be at least -1e.100"),
    ],
)
def test_linear_statistics_that_are_refused(weights, domain, error, message):
    with pytest.raises(error, match=message):
        linear_statistics(np.full((5, 3), 0.5), weights, domain, **BUDGET)
