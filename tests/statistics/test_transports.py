"""Statistics go through the transport that is asked for, and are right within their intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ikos
from ikos import statistics
from ikos.testing import DeterministicRandom
from ikos.transports import Helpers, Recipe

N = 600
SURE = 1 - 1e-9
RECIPES: dict[str, str | Recipe] = {"users": "helpers", "parties": Helpers(2, "parties")}

x = np.arange(N) * 37 % 101
region = np.where(np.arange(N) % 3 == 0, "north", "south")
gaps = np.where(x < 5, np.nan, x)
BOUNDS: dict[str, Any] = {"lower": 0, "upper": 100}
BY: dict[str, Any] = {"by": region, "groups": ["north", "south"]}


def means_of_two(**options: Any) -> Any:
    return statistics.means(np.stack([x, 100 - x], axis=1), **BOUNDS, **options)


def second(interval: Any) -> list[Any]:
    """Return the interval of the second of two columns or groups."""
    return [end[1] for end in interval]


Statistic = tuple[Callable[..., Any], Callable[[Any], Any], Any]

STATISTICS: dict[str, Statistic] = {
    "mean": (
        lambda **given: ikos.mean(x, **BOUNDS, **given),
        lambda result: result.mean_interval(SURE),
        x.mean(),
    ),
    "means": (
        means_of_two,
        lambda result: second(result.mean_interval(SURE)),
        100 - x.mean(),
    ),
    "mean of present": (
        lambda **given: ikos.mean(gaps, **BOUNDS, missing="exclude", **given),
        lambda result: result.mean_interval(SURE),
        np.nanmean(gaps),
    ),
    "mean by groups": (
        lambda **given: ikos.mean(x, **BOUNDS, **BY, **given),
        lambda result: second(result.mean_interval(SURE)),
        x[region == "south"].mean(),
    ),
    "variance": (
        lambda **given: ikos.variance(x, **BOUNDS, **given),
        lambda result: result.interval(SURE),
        x.var(),
    ),
    "count": (
        lambda **given: ikos.count(x > 50, **given),
        lambda result: result.interval(SURE),
        (x > 50).sum(),
    ),
    "histogram": (
        lambda **given: ikos.histogram(region, ["north", "south", "west"], **given),
        lambda result: result.intervals(SURE)["north"],
        (region == "north").sum(),
    ),
    "histogram by groups": (
        lambda **given: ikos.histogram(x % 5, range(5), **BY, **given),
        lambda result: result["north"].intervals(SURE)[2],
        (x[region == "north"] % 5 == 2).sum(),
    ),
    "histograms": (
        lambda **given: statistics.histograms({"a": region}, {"a": ["north", "south"]}, **given),
        lambda result: result.intervals(SURE)["a"]["south"],
        (region == "south").sum(),
    ),
    "median": (
        lambda **given: ikos.median(x, **BOUNDS, **given),
        lambda result: result.interval(SURE),
        np.median(x),
    ),
    "quantiles by groups": (
        lambda **given: ikos.quantiles(x, [0.25], **BOUNDS, **BY, **given),
        lambda result: result["south"].interval(SURE),
        np.quantile(x[region == "south"], 0.25, method="inverted_cdf"),
    ),
}


def released(result: Any) -> Any:
    """Return the private sum behind a release."""
    return getattr(result["south"] if isinstance(result, dict) else result, "private", result)


@pytest.mark.parametrize("noise", RECIPES)
@pytest.mark.parametrize("name", STATISTICS)
def test_helpers(name: str, noise: str) -> None:
    compute, interval, truth = STATISTICS[name]
    recipe, parties = RECIPES[noise], 3 if noise == "parties" else 2
    options = {"epsilon": 4, "delta": 1e-9, "transport": recipe, "min_honest": 500}
    result = compute(**options, rng=DeterministicRandom(len(name)))
    low, high = interval(result)
    assert low <= truth <= high
    assert released(result).cost.messages_per_user == parties
    conditions = " ".join(map(str, released(result).guarantee.conditions))
    assert "of the analyzer and" in conditions
    assert ("500 of 600" in conditions) == (noise == "users")


def test_few_messages_are_no_reason_to_leave_a_transport() -> None:
    labels = [f"c{i}" for i in range(300)]
    answers = [labels[i % 7] for i in range(N)]
    given: dict[str, Any] = {"epsilon": 2, "delta": 1e-8, "max_error": 50}
    shuffled = ikos.histogram(answers, labels, **given)
    helped = ikos.histogram(answers, labels, **given, transport="helpers")
    assert shuffled.private.cost.bits_per_user < helped.private.cost.bits_per_user
    assert helped.private.cost.messages_per_user == 2
    protocols = statistics.histogram_protocols(N, 300, **given, transport="helpers")
    assert [type(one) for one in protocols] == [ikos.PrivateVectorSum]
