"""Means, variances, counts and histograms on top of the private sum."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ikos import PrivateSum, statistics
from ikos.testing import DeterministicRandom


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
    assert "at least 50 of 100" in result.guarantee.conditions[0]


def test_count_is_an_integer_without_rounding_error() -> None:
    answers = np.arange(10_000) % 3 == 0
    result = statistics.count(answers, epsilon=1, delta=1e-8)
    assert result.estimate.is_integer()
    low, high = result.interval(1 - 1e-9)
    assert low <= answers.sum() <= high
    assert high - low < 50
    assert (result.error.coordinate.precision, result.error.coordinate.modulus) == (1, 16384)


def test_variance_splits_the_budget_and_covers() -> None:
    x = np.random.default_rng(0).normal(50, 10, 5000).clip(0, 100)
    rng = DeterministicRandom(2)
    result = statistics.variance(x, lower=0, upper=100, epsilon=1, delta=1e-6, rng=rng)
    low, high = result.interval(1 - 1e-9)
    assert low < x.var() < high
    assert high - low < 60
    assert abs(result.estimate - x.var()) < 20
    assert abs(result.mean() - x.mean()) < 1
    assert math.isclose(result.guarantee.epsilon, 1.0)
    assert result.guarantee.delta <= 1e-6
    assert result.first.guarantee.epsilon == result.second.guarantee.epsilon == 0.5


def test_variance_intervals_cover_as_often_as_they_say() -> None:
    """400 runs at 90 %: fewer than 310 hits have probability below 1e-9."""
    x = np.linspace(3, 9, 200)
    rng = DeterministicRandom(3)
    hits = 0
    for _ in range(400):
        result = statistics.variance(
            x, lower=0, upper=10, epsilon=1, delta=0.5, rng=rng, messages=1
        )
        low, high = result.interval(0.9)
        hits += low <= x.var() <= high
    assert hits >= 310


def test_extreme_values_do_not_leave_the_range_of_squares() -> None:
    lower, upper = 0.1, 0.7
    x = np.array([lower, upper] * 50)
    result = statistics.variance(x, lower=lower, upper=upper, epsilon=50, delta=1e-3)
    assert abs(result.estimate - x.var()) < 0.05


def test_histogram_spends_half_the_budget_on_each_count() -> None:
    values = np.array(["a"] * 700 + ["b"] * 250 + ["c"] * 50)
    result = statistics.histogram(
        values, ["a", "b", "c", "d"], epsilon=1, delta=1e-6, rng=DeterministicRandom(4)
    )
    assert list(result.counts) == ["a", "b", "c", "d"]
    for label, truth in (("a", 700), ("b", 250), ("c", 50), ("d", 0)):
        low, high = result.counts[label].interval(1 - 1e-9)
        assert low <= truth <= high
        assert result.counts[label].guarantee.epsilon == 0.5
    assert result.guarantee.epsilon == 1.0
    assert result.guarantee.delta <= 1e-6
    assert "at most two" in str(result)


@pytest.mark.parametrize(
    ("x", "categories"),
    [
        (np.full(50, 16777216, dtype=np.float32), [16777216, 16777217]),
        (np.full(50, 2.0**53), [2**53, 2**53 + 1]),
        (np.full(50, 0.1, dtype=np.float32), [0.1, np.float32(0.1)]),
        (["a"] * 50, ["a", "a\0"]),
        (["a"] * 50, [("a",), "a"]),
    ],
    ids=str,
)
def test_nobody_counts_twice_where_categories_merge_in_the_arrays_type(
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
    with pytest.raises(ValueError, match=r"x\[0\] must be one of .*, got another int$"):
        statistics.histogram([1, "1"] * 50, ["1", "a"], **budget)
    with pytest.raises(ValueError, match=r"x\[1\] must be one of .*, got another list$"):
        statistics.histogram(["a", ["a"]] * 50, ["a"], **budget)
    with pytest.raises(TypeError, match=r"categories must be hashable, got \['a'\]"):
        statistics.histogram(["a"] * 50, [["a"], ["b"]], **budget)  # type: ignore[list-item]


def test_categories_are_quoted_however_long_they_are() -> None:
    with pytest.raises(ValueError, match="categories must be distinct and not empty, got a list"):
        statistics.histogram([1, 2] * 50, [10**5000] * 2, epsilon=1, delta=1e-3)


@pytest.mark.parametrize("one", [True, Decimal("1.0"), Fraction(1)], ids=repr)
def test_integers_of_any_kind(one: Any) -> None:
    budget: dict[str, Any] = {"lower": 0, "upper": 2, "epsilon": 100, "delta": 1e-3}
    for x in ([one] * 50, pd.DataFrame({"a": [one] * 50})):
        assert statistics.mean(x, integers=True, **budget).mean() == pytest.approx(1, abs=0.1)
        assert statistics.variance(x, **budget).estimate == pytest.approx(0, abs=0.2)


@pytest.mark.parametrize(("analysis", "delta"), [("second_moment", 5e-7), ("balle2020", 7.8e-7)])
def test_half_of_delta_goes_to_each_sum_of_a_variance(analysis: str, delta: float) -> None:
    n = 1000  # where half of that delta takes one message more
    options: dict[str, Any] = {"lower": 0, "upper": 1, "analysis": analysis}
    whole = PrivateSum(n, 0.5, delta, **options)
    half = PrivateSum(n, 0.5, delta / 2, **options)
    assert half.messages.total == whole.messages.total + 1
    result = statistics.variance(np.zeros(n), epsilon=1, delta=delta, **options)
    for part in (result.first, result.second):
        assert part.cost.messages_per_user == half.messages.total
        assert part.guarantee.delta <= delta / 2


def test_each_sum_of_a_variance_gets_half_of_the_risk() -> None:
    x = np.linspace(0, 1, 100)
    result = statistics.variance(x, lower=0, upper=1, epsilon=1, delta=1e-3)
    low, high = result.interval(0.9)
    low2, high2 = result.second.mean_interval(0.95)
    low1, high1 = (end - 0.5 for end in result.first.mean_interval(0.95))
    squares = (low1**2, high1**2)
    assert low == low2 - max(squares)
    assert high == high2 - (0 if low1 <= 0 <= high1 else min(squares))


def test_masked_values_are_refused() -> None:
    x = np.ma.array([0.5] * 50, mask=[True] + [False] * 49)
    with pytest.raises(ValueError, match="must not hold masked values"):
        statistics.mean(x, lower=0, upper=1, epsilon=1, delta=1e-3)


def test_budgets_are_never_rounded_down() -> None:
    third = Fraction(1, 3)
    result = statistics.variance(np.zeros(50), lower=0, upper=1, epsilon=third, delta=1e-3)
    assert Fraction(result.guarantee.epsilon) >= third
    assert Fraction(result.first.guarantee.epsilon) >= third / 2


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda o: statistics.count([0, 1] * 50, **o), TypeError, "x must hold booleans"),
        (lambda o: statistics.count([], **o), ValueError, "at least one user"),
        (
            lambda o: statistics.histogram(["a"] * 50, ["b"], **o),
            ValueError,
            r"x\[0\] must be one",
        ),
        (lambda o: statistics.histogram(["a"] * 50, ["a", "a"], **o), ValueError, "distinct"),
        (lambda o: statistics.histogram(["a"] * 50, [], **o), ValueError, "categories must be"),
        *(
            (
                lambda o, given=given: statistics.histogram(["a"] * 50, given, **o),
                TypeError,
                "categories must be a sequence of categories, got ",
            )
            for given in ("abc", {"a", "b"}, {"a": 1}, 5)
        ),
        (lambda o: statistics.mean([[1.0]], lower=0, upper=1, **o), ValueError, "one-dimensional"),
        (lambda o: statistics.mean([2.0] * 50, lower=0, upper=1, **o), ValueError, "must be in"),
        (
            lambda o: statistics.variance(["x"] * 50, lower=0, upper=1, **o),
            TypeError,
            "must be a float",
        ),
    ],
)
def test_bad_input_is_refused(call: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call({"epsilon": 1, "delta": 1e-3})


@pytest.mark.parametrize("call", [statistics.mean, statistics.variance])
def test_blocks_are_for_sums(call: Any) -> None:
    """An iterator would be one object, not a value for each user."""
    with pytest.raises(TypeError, match="x must be an array, got generator: blocks of values are"):
        call((x for x in [0.5] * 9), lower=0, upper=1, epsilon=1, delta=1e-3)


def test_too_few_messages_prove_nothing_for_the_whole() -> None:
    result = statistics.variance(np.zeros(50), lower=0, upper=1, epsilon=1, delta=1e-3, messages=2)
    assert result.guarantee.delta == 1.0
    assert "no differential privacy is proved" in str(result)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda o: statistics.count([True] * 9, upper=5, **o), r"count\(\) takes no upper .*got 5"),
        (lambda o: statistics.histogram(["a"] * 9, ["a"], lower=-1, **o), "takes no lower"),
        (
            lambda o: statistics.variance([1.0] * 9, lower=0, upper=9, integers=True, **o),
            r"variance\(\) takes no integers \(the middle of the bounds",
        ),
        (
            lambda o: statistics.mean([1.0] * 9, lower=0, upper=9, threads=2, **o),
            r"mean\(\) got an unexpected keyword argument 'threads'; it passes on precision, ",
        ),
        (lambda o: statistics.count([True] * 9, n=5, **o), "unexpected keyword argument 'n'"),
    ],
)
def test_options_that_are_not_passed_on_are_refused(call: Any, said: str) -> None:
    """A count of values up to 5 would have five times the noise, for nothing."""
    with pytest.raises(TypeError, match=said):
        call({"epsilon": 1, "delta": 1e-3})
