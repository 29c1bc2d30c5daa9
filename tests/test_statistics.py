"""Means, variances, counts and histograms on top of the private sum."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ikos import Box, PrivateVectorSum, statistics
from ikos.baselines import FrequencyEstimation
from ikos.data.sensitivity import Sensitivity
from ikos.statistics import histograms
from ikos.testing import DeterministicRandom

LARGE: dict[str, Any] = {"epsilon": 2, "delta": 1e-8}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "kind", "value"),
    [
        ("max_error", PrivateVectorSum, 2),
        ("max_error", FrequencyEstimation, 7.5),
        ("max_error", FrequencyEstimation, 40),
        ("max_bytes", FrequencyEstimation, 4),
        ("max_bytes", FrequencyEstimation, 12),
        ("max_bytes", PrivateVectorSum, 10**5),
    ],
)
def test_histogram_protocols_keep_to_a_limit(limit: str, kind: type, value: float) -> None:
    """The first keeps to it, and nothing tried that keeps to it is better."""
    n, d = 1000, 400
    best, *others = statistics.histogram_protocols(n, d, **LARGE, **{limit: value})
    assert type(best) is kind

    def measures(protocol: Any) -> list[float]:
        error = protocol.error(n).coordinate.mean_square ** 0.5
        both = [error, protocol.cost().bits_per_user / 8]
        return both[:: 1 if limit == "max_error" else -1]  # what is limited first

    found, better = measures(best)
    assert found <= value
    sizes = (1, 2, 3, 8, 20, 60, 200)
    others += [FrequencyEstimation(n, best.domain, **LARGE, set_size=size) for size in sizes]
    assert all(measures(one)[0] > value or measures(one)[1] >= better * 0.9999 for one in others)


def test_a_histogram_by_the_protocol_that_is_chosen() -> None:
    x, labels = [f"c{i % 50}" for i in range(1000)], [f"c{i}" for i in range(400)]
    for limit in ({"max_bytes": 12}, {"max_error": 2}):
        found = statistics.histogram(x, labels, **LARGE, **limit)
        best, *_ = statistics.histogram_protocols(1000, 400, **LARGE, **limit)
        assert found.private.cost == best.cost()
        assert found.guarantee == best.guarantee
        each = found.intervals(1 - 1e-9, simultaneous=True)
        truth = Counter(x)
        assert all(low <= truth[name] <= high for name, (low, high) in each.items())


def test_few_messages_have_one_shuffler_and_count_honest_users() -> None:
    given = {**LARGE, "max_bytes": 10**6}
    protocols = statistics.histogram_protocols(1000, 20, **given, corrupt_shufflers=1)
    assert [type(one) for one in protocols] == [PrivateVectorSum]
    protocols = statistics.histogram_protocols(1000, 20, **given, min_honest=900)
    assert {one.min_honest for one in protocols} == {900}


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({}, "^give either max_error or max_bytes, got None and None"),
        ({"max_error": 1, "max_bytes": 1}, "^give either max_error or max_bytes"),
        ({"max_error": 0}, "^max_error must be greater than 0, got 0"),
        ({"max_error": 0.1}, r"^max_error must be larger, got 0\.1; .* is possible"),
        ({"max_bytes": 0.5}, r"^max_bytes must be larger, got 0\.5; .* is possible"),
    ],
)
def test_limits_that_are_refused(limits: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        statistics.histogram_protocols(1000, 20, **LARGE, **limits)


@pytest.mark.slow
def test_mean_is_the_private_sums() -> None:
    x = np.linspace(20, 60, 500)
    result = statistics.mean(
        x, lower=0, upper=100, epsilon=2, delta=1e-6, rng=DeterministicRandom(1)
    )
    low, high = result.mean_interval(1 - 1e-9)
    assert low < 40 < high
    assert (result.guarantee.epsilon, result.guarantee.delta <= 1e-6) == (2.0, True)


def test_options_reach_the_protocol() -> None:
    result = statistics.mean(
        np.zeros(100), lower=0, upper=1, epsilon=1, delta=1e-3, shuffler="single", min_honest=50
    )
    assert "at least 50 of 100" in result.guarantee.conditions[0].text


@pytest.mark.slow
def test_count_is_an_integer_without_rounding_error() -> None:
    answers = np.arange(10_000) % 3 == 0
    result = statistics.count(answers, epsilon=1, delta=1e-8)
    assert result.estimate.is_integer()
    low, high = result.interval(1 - 1e-9)
    assert low <= answers.sum() <= high
    assert high - low < 50
    assert (result.error.coordinate.precision, result.error.coordinate.modulus) == (1, 16384)


def test_variance_is_near_and_covers() -> None:
    x = np.random.default_rng(0).normal(50, 10, 5000).clip(0, 100)
    rng = DeterministicRandom(2)
    result = statistics.variance(x, lower=0, upper=100, epsilon=1, delta=1e-6, rng=rng)
    low, high = result.interval(1 - 1e-9)
    assert low < x.var() < high
    assert high - low < 60
    assert abs(result.estimate - x.var()) < 20
    assert abs(result.mean() - x.mean()) < 1
    assert result.guarantee.epsilon == 1
    assert result.guarantee.delta <= 1e-6
    assert str(result).startswith("variance ")


def test_histograms_of_missing_and_other_values() -> None:
    values = ["a", "b", None, "c", float("nan")] * 200
    budget: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}
    result = statistics.histogram(values, ["a"], other="rest", missing="exclude", **budget)
    assert result.estimates() == pytest.approx({"a": 200, "rest": 400, None: 400}, abs=60)
    assert str(result).startswith("a: ")
    assert ", missing: " in str(result)
    filled = statistics.histogram(values, ["a", "b", "c"], missing="b", **budget)
    assert filled.estimates() == pytest.approx({"a": 200, "b": 600, "c": 200}, abs=60)
    several = histograms({"v": values}, {"v": ["a", "b", "c"]}, missing="exclude", **budget)
    assert several["v", None].estimate == pytest.approx(400, abs=60)
    for options, problem in (
        ({"missing": "q"}, 'missing must be "refuse", "exclude" or one of the categories'),
        ({"other": "a"}, "other must not be one of the categories, got 'a'"),
        ({"groups": ["n"]}, "by must hold the users' labels where groups are listed"),
        ({"other": "r"}, r"x\[2\] must be one of the categories, not missing"),
    ):
        with pytest.raises(ValueError, match=problem):
            statistics.histogram(values, ["a", "b", "c"], **options, **budget)
    for fill in ("exclude", "a"):
        with pytest.raises(ValueError, match="categories must not hold None"):
            statistics.histogram(values, ["a", None], missing=fill, **budget)
    with pytest.raises(ValueError, match="categories must not hold missing values but None"):
        statistics.histogram(values, ["a", math.nan], missing="exclude", **budget)


@pytest.mark.parametrize("limit", [{}, {"max_error": 20.0}])
def test_histograms_by_groups(limit: dict[str, float]) -> None:
    """Users without a label are in no group, and the noise is that of one histogram."""
    values, by = ["a", "b", None, "b"] * 200, ["n", "s", "n", None, "s"] * 160
    budget: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, **limit}
    result = statistics.histogram(
        values, ["a", "b"], by=by, groups=["n", "s", "w"], missing="exclude", **budget
    )
    cells = list(zip(by, values, strict=True))
    for group in ("n", "s", "w"):
        for label in ("a", "b", None):
            true = cells.count((group, label))
            assert abs(result[group].estimates()[label] - true) < (200 if limit else 60)
    assert list(result._table().labels)[:2] == [("n", "a"), ("n", "b")]
    assert result._sum.guarantee.epsilon == 1
    with pytest.raises(ValueError, match=r"by\[3\] must be one of the groups, not missing"):
        statistics.histogram(values, ["a", "b"], by=by, groups=["n", "s"], missing="a", **budget)


def test_a_histogram_is_that_of_several_columns() -> None:
    values, labels = np.array(["a"] * 700 + ["b"] * 250 + ["c"] * 50), ["a", "b", "c", "d"]
    budget: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}
    result = statistics.histogram(values, labels, **budget, rng=DeterministicRandom(4))
    same = histograms({"v": values}, {"v": labels}, **budget, rng=DeterministicRandom(4))
    assert result.estimates() == same.estimates()["v"]
    assert result.intervals(0.9) == same.intervals(0.9)["v"]
    assert result.guarantee == same.guarantee
    assert str(result).startswith("a: ")


def test_counts_are_those_of_their_column_in_whatever_order_categories_come() -> None:
    """Columns of different lengths: of another one, a count would be in a wrong cell, or none."""
    columns = {"a": [0] * 50 + [1] * 30 + [2] * 20, "b": ["x"] * 90 + ["y"] * 10, "c": [7] * 100}
    categories = {"c": [7, 8, 9, 10], "b": ["y", "x"], "a": [2, 0, 1]}
    wanted = {"a": {2: 20, 0: 50, 1: 30}, "b": {"y": 10, "x": 90}, "c": {7: 100, 8: 0, 9: 0, 10: 0}}
    for names in itertools.permutations(categories):
        given = {name: categories[name] for name in names}
        result = histograms(columns, given, epsilon=100, delta=1e-3)
        found = {
            column: {label: round(count) for label, count in counts.items()}
            for column, counts in result.estimates().items()
        }
        assert found == wanted


@pytest.mark.parametrize(
    ("x", "categories"),
    [
        (np.full(50, 16777216, dtype=np.float32), [16777216, 16777217]),
        (np.full(50, 2.0**53), [2**53, 2**53 + 1]),
        (np.full(50, 0.1, dtype=np.float32), [0.1, np.float32(0.1)]),
        (["a"] * 50, ["a", "a\0"]),
        (["a"] * 50, [("a",), "a"]),
    ],
)
def test_no_user_counts_twice_where_categories_merge_in_the_arrays_type(
    x: Any, categories: list[Any]
) -> None:
    """Two labels that become one would make a replacement change four counts, not two."""
    result = statistics.histogram(x, categories, epsilon=100, delta=1e-3)
    assert abs(sum(result.estimates().values()) - 50) < 5


@pytest.mark.parametrize("unit", ["D", "s", "ns"])
def test_dates_are_categories(unit: str) -> None:
    days = np.array(["2020-01-01"] * 60 + ["2021-01-01"] * 40, dtype=f"M8[{unit}]")
    result = statistics.histogram(days, list(np.unique(days)), epsilon=100, delta=1e-3)
    assert [round(value) for value in result.estimates().values()] == [60, 40]


def test_values_of_a_list_are_taken_as_they_are() -> None:
    """An array of them would make texts of the numbers."""
    budget: dict[str, Any] = {"epsilon": 100, "delta": 1e-3}
    result = statistics.histogram([1, "a"] * 50, [1, "a", "1"], **budget)
    assert [round(value) for value in result.estimates().values()] == [50, 50, 0]
    with pytest.raises(ValueError, match=r"x\[0\] must be one of .*, got a different int"):
        statistics.histogram([1, "1"] * 50, ["1", "a"], **budget)
    with pytest.raises(ValueError, match=r"x\[1\] must be one of .*, got a different list"):
        statistics.histogram(["a", ["a"]] * 50, ["a"], **budget)


def test_tuples_are_categories() -> None:
    """Also of one length, of which NumPy makes two dimensions."""
    labels = [("a", 1), ("b", 2)]
    for x in (labels * 50, pd.DataFrame({"pair": labels * 50})):
        result = statistics.histogram(x, labels, epsilon=100, delta=1e-3)
        assert {label: round(value) for label, value in result.estimates().items()} == {
            ("a", 1): 50, ("b", 2): 50,
        }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("one", [True, np.True_, 1], ids=repr)
def test_integers_of_any_kind(one: Any) -> None:
    budget: dict[str, Any] = {"lower": 0, "upper": 2, "epsilon": 100, "delta": 1e-3}
    for x in ([one] * 50, pd.DataFrame({"a": [one] * 50})):
        assert statistics.mean(x, integers=True, **budget).mean() == pytest.approx(1, abs=0.1)
        assert statistics.variance(x, **budget).estimate == pytest.approx(0, abs=0.2)


def test_too_few_messages_prove_nothing_for_the_whole() -> None:
    result = statistics.variance(np.zeros(50), lower=0, upper=1, epsilon=1, delta=1e-3, messages=2)
    assert result.guarantee.delta == 1.0
    assert "no differential privacy is proved" in str(result)


LIMITS: dict[str, Any] = {"lower": 0, "upper": 1}
RELEASES: dict[str, Callable[..., Any]] = {
    "mean": partial(statistics.mean, [0.5] * 9, **LIMITS),
    "count": partial(statistics.count, [True] * 9),
    "variance": partial(statistics.variance, [0.5] * 9, **LIMITS),
    "means": partial(statistics.means, [[0.5]] * 9, **LIMITS),
    "variances": partial(statistics.variances, [[0.5]] * 9, **LIMITS),
    "linear": partial(statistics.linear_statistics, [[0.5]] * 9, [[1]], Box(1)),
    "histogram": partial(statistics.histogram, ["a"] * 9, ["a"]),
    "histogram of few bytes": partial(statistics.histogram, ["a"] * 9, ["a", "b"], max_bytes=99),
    "histograms": partial(histograms, {"a": [1] * 9}, {"a": [1]}),
    "protocols": partial(statistics.histogram_protocols, 9, 2, max_error=9),
}


@pytest.mark.parametrize("name", RELEASES)
def test_options_that_are_not_passed_on_are_refused(name: str) -> None:
    """By the function that was called. A count of values up to 5 would have five times the noise.

    Columns are scaled: a sensitivity in their own units would be taken for one of scaled values,
    and half of the noise that is needed be added.
    """
    unknown = {"sensitivity": Sensitivity(l1=1), "bins": 3, "threads": 2}
    if name != "mean":
        unknown["integers"] = True
    for option, value in unknown.items():
        said = rf"^{RELEASES[name].func.__name__}\(\) got an unexpected keyword argument '{option}'"
        with pytest.raises(TypeError, match=said):
            RELEASES[name](epsilon=1, delta=1e-3, **{option: value})


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (partial(statistics.count, [0, 1] * 50), TypeError, "x must hold booleans"),
        (partial(statistics.count, []), ValueError, "at least one user"),
        (partial(statistics.histogram, ["a"] * 50, ["b"]), ValueError, r"x\[0\] must be one"),
        (partial(statistics.histogram, ["a"] * 50, []), ValueError, "categories must be"),
        (
            partial(statistics.histogram, [1] * 50, [10**5000] * 2),
            ValueError,
            "categories must be distinct and not empty, got a list",
        ),
        *(
            (
                partial(statistics.histogram, ["a"] * 50, categories),
                TypeError,
                "categories must be a sequence, got ",
            )
            for categories in ("abc", {"a", "b"}, 5)
        ),
        *(
            (partial(release, x, **LIMITS), error, said)
            for release in (statistics.mean, statistics.variance)
            for x, error, said in (
                ([[1.0, 0.5]], ValueError, "one-dimensional"),
                ([2.0] * 50, ValueError, "must be"),
                (["x"] * 50, TypeError, "must be a float"),
                ((x for x in [0.5] * 9), TypeError, "x must be an array, got generator"),
                (np.ma.array([0.5] * 50, mask=[1] + [0] * 49), ValueError, "masked|missing"),
            )
        ),
    ],
)
def test_bad_input_is_refused(call: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call(epsilon=1, delta=1e-3)
