"""Means by groups and of present values: encodings, errors, intervals, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from ikos.data.domains import Bounds, Portions
from ikos.statistics import count, mean, means, quantiles, variance, variances
from ikos.statistics.groups import (
    GroupMeans,
    GroupVariances,
    PresentMean,
    group_vectors,
    present_vectors,
)
from ikos.testing import DeterministicRandom

BUDGET: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}
HUNDRED: dict[str, Any] = {"lower": 0, "upper": 100, **BUDGET}


def distances(vectors: np.ndarray) -> tuple[int, int, int, int]:
    """Return the largest distances of two rows: l1, l2 squared, linf, and changed entries."""
    apart = np.array([a - b for a, b in combinations(vectors.astype(int), 2)])
    size = np.abs(apart)
    return (
        size.sum(axis=1).max(), (size**2).sum(axis=1).max(), size.max(),
        np.count_nonzero(size, axis=1).max(),
    )  # fmt: skip


def supports(encode: Any, values: list[Any]) -> np.ndarray:
    """Return every vector that a value may be rounded to."""
    drawn = [encode(value, DeterministicRandom(seed)) for value in values for seed in range(30)]
    return np.unique(np.concatenate(drawn), axis=0)


@pytest.mark.parametrize("p", [1, 2, 3, 4])
@pytest.mark.parametrize("excluded", [False, True])
@pytest.mark.parametrize("kind", [GroupMeans, GroupVariances])
def test_vectors_of_groups_are_as_near_as_is_proved(
    p: int, excluded: bool, kind: type[GroupMeans]
) -> None:
    cells = kind.cells(excluded)
    domain = Portions([2 * cells], p)

    def encode(value: tuple[float, int], rng: DeterministicRandom) -> np.ndarray:
        number, place = value
        return group_vectors(
            [np.array([number])], [Bounds(0, 1)], np.array([place]), domain, excluded, rng, kind
        )

    numbers = [*(k / 10 for k in range(11)), *([np.nan] if excluded else [])]
    places = [0, 1, *([-1] if excluded else [])]
    vectors = supports(encode, list(product(numbers, places)))
    most = 2 * min(p, 2 if kind is GroupMeans else 3)
    assert distances(vectors) == (2 * p, 2 * p * p, p, most)
    domain.values(vectors)
    promise = domain.coordinates(True, None).promise
    assert promise is not None
    shift = promise.steps(domain.dimension)
    assert (shift.l1, shift.l2_squared, shift.linf) == (2 * p, 2 * p * p, p)


@pytest.mark.parametrize("p", [1, 8])
def test_parts_of_variances_are_unbiased(p: int) -> None:
    """Of 10,000 draws each, with a false alarm below 1e-10 by Hoeffding's inequality."""
    for u in (0.0, 0.1, 0.5, 0.93, 1.0):
        x = np.full(10_000, u)
        parts = GroupVariances.encode(x, Bounds(0, 1), p, DeterministicRandom(3))
        assert (parts.sum(axis=0) == p).all()
        wanted = np.array([u**2, 2 * u * (1 - u), (1 - u) ** 2])
        assert np.abs(parts.mean(axis=1) - p * wanted).max() < 2 * 0.034
        assert (np.abs(parts.T - p * wanted) < 1 + 1e-9).all()


@pytest.mark.parametrize("p", [2, 4, 6])
def test_vectors_of_present_values_are_as_near_as_is_proved(p: int) -> None:
    def encode(value: float, rng: DeterministicRandom) -> np.ndarray:
        return present_vectors([np.array([value])], [Bounds(0, 1)], p, rng)

    vectors = supports(encode, [*(k / 10 for k in range(11)), np.nan])
    assert distances(vectors) == (p, p * p, p, 2)


def test_portions_take_what_they_should_and_nothing_else() -> None:
    domain = Portions([2, 1], 3)
    domain.values([[3, 0, 3], [0, 0, 0], [1, 2, 1]])
    for bad in ([2, 2, 0], [0, 0, 4], [-1, 2, 0], [0.5, 0, 0], [np.nan, 0, 0], [np.inf, 0, 0]):
        with pytest.raises(ValueError, match=r"x\[1"):
            domain.values([[0, 0, 0], bad])
    apart = domain.coordinates(True, None).promise
    assert apart is not None
    assert apart.l1 == 3 * 3  # twice the total in the run of two, once in the other


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 4000
    return pd.DataFrame(
        {
            "pay": rng.integers(0, 101, n).astype(float),
            "region": rng.choice(["north", "south", "east"], n),
            "sex": rng.choice([0, 1], n),
        }
    )


def test_errors_do_not_depend_on_the_number_of_groups(table: pd.DataFrame) -> None:
    """4.00 for a count and 2.83 for a scaled sum at epsilon 1, of 3 groups and of 60."""
    for groups in (["north", "south", "east"], [*map(str, range(57)), "north", "south", "east"]):
        result = mean(
            table["pay"], by=table["region"], groups=groups, rng=DeterministicRandom(0), **HUNDRED
        )
        variance = result.private.error.coordinate.noise.variance
        deviation = variance**0.5 / result.private.domain.total
        assert deviation * 2**0.5 == pytest.approx(4.0, abs=0.03)
        assert deviation == pytest.approx(2.83, abs=0.02)


def exact(frame: pd.DataFrame, by: Any, groups: Any) -> pd.DataFrame:
    return frame.groupby(by)["pay"].agg(["count", "sum", "mean"]).reindex(groups)


def test_estimates_by_groups(table: pd.DataFrame) -> None:
    groups = ["north", "south", "east"]
    result = mean(
        table["pay"], by=table["region"], groups=groups, rng=DeterministicRandom(0), **HUNDRED
    )
    truth = exact(table, "region", groups)
    frame = result.to_frame()
    assert list(frame.index) == groups
    for name, reach in (("count", 60), ("sum", 4000), ("mean", 4)):
        assert (np.abs(frame[name] - truth[name]) < reach).all()
        assert (frame[f"{name}_low"] <= frame[name]).all()
        assert (frame[name] <= frame[f"{name}_high"]).all()
    wide, narrow = result.mean_interval(simultaneous=True), result.mean_interval()
    assert (wide.low <= narrow.low).all()
    assert (wide.high > narrow.high).all()
    with pytest.raises(ValueError, match="exclude"):
        result.missing()


def test_groups_of_two_columns_and_others(table: pd.DataFrame) -> None:
    groups = {"region": ["north", "south"], "sex": [0, 1]}
    by = table[["region", "sex"]]
    with pytest.raises(ValueError, match=r"by\['region'\]\[\d+\] must be one of the groups"):
        mean(table["pay"], by=by, groups=groups, rng=DeterministicRandom(0), **HUNDRED)
    result = mean(
        table["pay"], by=by, groups=groups, other="rest", rng=DeterministicRandom(0), **HUNDRED
    )
    assert result.groups == tuple(product(["north", "south", "rest"], [0, 1, "rest"]))
    named = table.assign(region=table["region"].replace("east", "rest"))
    truth = exact(named, ["region", "sex"], list(result.groups))["count"].fillna(0)
    assert np.abs(result.counts() - truth.to_numpy()).max() < 60


def test_missing_values_are_excluded(table: pd.DataFrame) -> None:
    pay, region = table["pay"].copy(), table["region"].astype(object)
    pay[:700], region[600:1000] = np.nan, None
    groups = ["north", "south", "east"]
    result = mean(
        pay, by=region, groups=groups, missing="exclude", rng=DeterministicRandom(0), **HUNDRED
    )
    some = region.notna()
    truth = pay[some].groupby(region[some]).agg(["count", "mean", "size"]).reindex(groups)
    assert np.abs(result.counts() - truth["count"]).max() < 60
    assert np.abs(result.missing() - (truth["size"] - truth["count"])).max() < 50
    assert np.abs(result.means() - truth["mean"]).max() < 5
    alone = mean(pay, missing="exclude", rng=DeterministicRandom(0), **HUNDRED)
    assert isinstance(alone, PresentMean)
    assert abs(alone.mean() - pay.mean()) < 1
    assert abs(alone.missing() - 700) < 60
    assert abs(alone.count() - 3300) < 60
    assert abs(alone.sums() - pay.sum()) < 6000
    masked = np.ma.masked_invalid(pay)
    again = mean(masked, missing="exclude", rng=DeterministicRandom(1), **HUNDRED)
    assert (
        again.mean() == mean(pay, missing="exclude", rng=DeterministicRandom(1), **HUNDRED).mean()
    )


def test_variances_by_groups(table: pd.DataFrame) -> None:
    """Everything that means have, from one release, with the variances."""
    pay = table["pay"].copy()
    pay[:700] = np.nan
    by, groups = table["region"], ["north", "south", "east"]
    options = {**HUNDRED, "missing": "exclude", "rng": DeterministicRandom(0)}
    result = variance(pay, by=by, groups=groups, **options)
    truth = pay.groupby(by).agg(["count", "sum", "mean"]).reindex(groups)
    truth["variance"] = pay.groupby(by).var(ddof=0)
    truth["missing"] = pay.isna().groupby(by).sum()
    frame = result.to_frame()
    reach = {"count": 60, "sum": 5000, "mean": 5, "variance": 150, "missing": 50}
    for name, most in reach.items():
        assert (np.abs(frame[name] - truth[name]) < most).all()
        assert (frame[f"{name}_low"] <= frame[name]).all()
        assert (frame[name] <= frame[f"{name}_high"]).all()
    wide, narrow = result.variance_interval(simultaneous=True), result.variance_interval()
    assert ((wide.low <= narrow.low) & (narrow.high < wide.high)).all()
    nobody = variance(pay, by=by, groups=["west"], other="rest", **options)
    assert np.isnan(nobody.variances()).tolist() == [True, False]
    assert nobody["west"]["variance"][1:] == (0, 2500)
    alone = variance(pay, **options)
    assert abs(alone.variance() - pay.var(ddof=0)) < 60
    assert abs(alone.mean() - pay.mean()) < 2
    assert abs(alone.missing() - 700) < 60
    assert alone["variance"].estimate == alone.variance()
    assert str(alone).startswith(f"variance  {alone.variance():.1f}"[:13])


def test_variances_of_several_columns(table: pd.DataFrame) -> None:
    x = table[["pay", "sex"]].astype(float)
    x.iloc[:300, 0] = np.nan
    options = {**BUDGET, "lower": 0, "upper": [100, 1], "rng": DeterministicRandom(0)}
    truth = x.var(ddof=0)
    alone = variances(x, missing="exclude", **options)
    by = variances(x, missing="exclude", by=table["sex"], groups=[0, 1], **options)
    assert list(alone) == list(by) == ["pay", "sex"]
    for column, most in (("pay", 120), ("sex", 0.02)):
        assert abs(alone[column].variance() - truth[column]) < most
        assert by[column].groups == (0, 1)
    assert np.abs(by["sex"].variances()).max() < 0.04
    filled = variances(x, missing=1, **options)
    assert np.abs(filled.estimate - x.fillna(1).var(ddof=0)).max() < 60
    assert filled.columns == ("pay", "sex")


@pytest.mark.slow
@pytest.mark.parametrize("by", [None, [*"ab"] * 500])
def test_answers_that_are_missing(by: Any) -> None:
    answers = [None if i % 5 == 0 else i % 5 == 1 for i in range(1000)]
    options = {**BUDGET, "rng": DeterministicRandom(0)}
    groups = {} if by is None else {"by": by, "groups": ["a", "b"]}
    result = count(answers, missing="exclude", **groups, **options)
    assert abs(np.sum(result.sums()) - 200) < 60
    assert abs(np.sum(result.counts()) - 800) < 80
    gone = np.arange(1000) % 5 == 0
    masked = np.ma.masked_array(np.arange(1000) % 5 == 1, gone)
    nullable = pd.Series(answers, dtype="boolean")
    for kind in (masked, nullable):
        again = count(
            kind, missing="exclude", **groups, **{**options, "rng": DeterministicRandom(0)}
        )
        assert np.array_equal(again.private.estimate, result.private.estimate)
    filled = count(answers, missing=True, **options)
    assert abs(filled.estimate - 400) < 40
    with pytest.raises(TypeError, match="must hold booleans"):
        count([1, None], missing=True, **BUDGET)
    with pytest.raises(ValueError, match=r"x\[0\] must be a boolean, not missing"):
        count(answers, **BUDGET)


@pytest.mark.parametrize("verb", [mean, variance, pytest.param(quantiles, marks=pytest.mark.slow)])
def test_layouts_are_those_of_sums_of_vectors(verb: Any) -> None:
    x, by = np.arange(300) % 100, [*"abc"] * 100
    options = {**HUNDRED, "by": by, "groups": [*"abc"]}
    blocks, separate = (verb(x, layout=layout, **options) for layout in ("blocks", "separate"))
    assert blocks._sum.cost.messages_per_user < separate._sum.cost.messages_per_user
    with pytest.raises(TypeError, match=rf"{verb.__name__}\(\) got an unexpected .* 'lay'"):
        verb(x, lay="blocks", **options)


@pytest.mark.parametrize("verb", [mean, count])
def test_a_single_sum_has_no_layout(verb: Any) -> None:
    x, bounds = ([True] * 50, {}) if verb is count else ([1] * 50, {"lower": 0, "upper": 1})
    with pytest.raises(TypeError, match=rf"{verb.__name__}\(\) got an unexpected .* 'layout'"):
        verb(x, layout="blocks", **bounds, **BUDGET)


def test_columns_of_polars() -> None:
    pl = pytest.importorskip("polars")
    rows = range(600)
    frame = pl.DataFrame(
        {
            "pay": [None if i % 9 == 0 else float(i % 100) for i in rows],
            "old": [None if i % 9 == 0 else i % 2 == 0 for i in rows],
            "region": ["north" if i % 3 else "south" for i in rows],
            "sex": [i % 2 for i in rows],
        }
    ).with_columns(pl.col("region").cast(pl.Categorical))
    by, groups = frame[["region", "sex"]], {"region": ["north", "south"], "sex": [0, 1]}
    grouped = {"by": by, "groups": groups, "missing": "exclude"}
    for result in (
        mean(frame["pay"], **grouped, **HUNDRED),
        variance(frame["pay"], **grouped, **HUNDRED),
        count(frame["old"], **grouped, **BUDGET),
    ):
        assert result.by == ("region", "sex")
        assert abs(np.sum(result.counts()) - 533) < 150
    columns = means(frame[["pay", "sex"]], lower=0, upper=[100, 1], missing="exclude", **BUDGET)
    assert list(columns) == ["pay", "sex"]
    found = quantiles(frame["pay"], by=frame["region"], groups=["north", "south"],
                      missing="exclude", **HUNDRED)  # fmt: skip
    assert list(found) == ["north", "south"]


def test_a_value_for_missing_ones(table: pd.DataFrame) -> None:
    pay = table["pay"].copy()
    pay[:1000] = np.nan
    rng = [DeterministicRandom(7) for _ in range(2)]
    result = mean(pay, missing=40, rng=rng[0], **HUNDRED)
    assert result.estimate == mean(pay.fillna(40), rng=rng[1], **HUNDRED).estimate


@pytest.mark.parametrize("by", [None, "region"])
def test_several_columns_share_a_budget(table: pd.DataFrame, by: str | None) -> None:
    """The noise of a sum is proportional to the number of columns, and each has its bounds."""
    x = table[["pay", "sex"]].astype(float)
    x.iloc[:300, 0] = np.nan
    options = {} if by is None else {"by": table[by], "groups": ["north", "south", "east"]}
    result = means(
        x,
        lower=0,
        upper=[100, 1],
        missing="exclude",
        rng=DeterministicRandom(0),
        **options,
        **BUDGET,
    )
    assert list(result) == ["pay", "sex"]
    deviation = result["pay"].private.error.coordinate.noise.variance ** 0.5
    deviation /= result["pay"].private.domain.upper
    assert deviation == pytest.approx(2 * (1.41 if by is None else 2.83), rel=0.01)
    truth = x.mean() if by is None else x.groupby(table[by]).mean().reindex(options["groups"])
    assert np.abs(result["pay"].means() - truth["pay"]).max() < 5
    assert np.abs(result["sex"].means() - truth["sex"]).max() < 0.05
    x.iloc[5, 1] = 2
    with pytest.raises(ValueError, match=r"x\[5, 1\] must be in \[0, 1\]"):
        means(x, lower=0, upper=[100, 1], missing=0, **options, **BUDGET)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"x\[2\] must be in \[0, 100\], not missing"),
        ({"missing": 101}, "missing must be at most 100, got 101"),
        ({"missing": 0.5, "integers": True}, "missing must be an integer, got 0.5"),
        ({"missing": "drop"}, "missing must be one of 'refuse', 'exclude', got 'drop'"),
        ({"missing": 1, "groups": ["a"]}, "by must hold the users' labels"),
        ({"missing": 1, "other": "a"}, "by must hold the users' labels"),
        ({"missing": 1, "by": ["a"] * 3}, "groups must list the public groups"),
        ({"missing": 1, "by": ["a", "b", "a"], "groups": ["a"]}, r"by\[1\] must be one of the gr"),
        ({"missing": 1, "by": ["a", None, "a"], "groups": ["a"]}, r"by\[1\] .* not missing"),
        ({"missing": 1, "by": ["a"], "groups": ["a"]}, "by must hold a label for each of 3 users"),
        ({"missing": 1, "by": ["a"] * 3, "groups": ["a", "a"]}, "groups must be distinct"),
        ({"missing": 1, "by": ["a"] * 3, "groups": ["a", pd.NA]}, "groups must not hold missing"),
        ({"missing": 1, "by": ["a"] * 3, "groups": ["a"], "other": "a"}, "other must not be one"),
        ({"missing": 1, "by": {"u": ["a"] * 3}, "groups": ["a"]}, "groups must map each of the"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mean([1, 2, None], **options, **HUNDRED)


def test_values_outside_the_bounds_are_located_among_the_missing() -> None:
    for by in ({}, {"by": ["a"] * 4, "groups": ["a"]}):
        with pytest.raises(ValueError, match=r"x\[3\] must be in \[0, 100\]"):
            mean([None, 1, 2, 101], missing="exclude", **by, **HUNDRED)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "share"), [(0, 0), (5, 0.5), (100, 0.9), (1000, 0.02)])
def test_all_intervals_hold(size: int, share: float) -> None:
    """Of noise drawn anew on the sums of one release, for groups of every size."""
    n, draws = 1200, 4000
    x = np.full(n, 50.0)
    x[:size] = 100 * share
    by = ["a"] * size + ["b"] * (n - size)
    release = mean(x, by=by, groups=["a", "b"], rng=DeterministicRandom(0), **HUNDRED)
    p, rate = release.private.domain.total, float(release.private.error.coordinate.noise.rate)
    true = p * np.array([size * share, size * (1 - share), (n - size) / 2, (n - size) / 2])
    rng = np.random.default_rng(3)
    sums = true[:, None] + rng.geometric(-np.expm1(-rate), (4, draws))
    sums = (sums - rng.geometric(-np.expm1(-rate), (4, draws))).T.ravel()
    labels = tuple(range(2 * draws))
    many = GroupMeans(
        replace(release.private, estimate=sums), release.bounds, release.rounded, False, labels
    )
    limit = stats.binom.isf(1e-10, draws, 0.05)
    for band, value in (
        (many.count_interval(), size),
        (many.sum_interval(), 100 * size * share),
        (many.mean_interval(), 100 * share),
    ):
        low, high = band.low[::2], band.high[::2]
        missed = np.count_nonzero((low > value) | (high < value))
        assert missed <= limit
        if size >= 100:
            assert missed >= stats.binom.ppf(1e-10, draws, 0.03)


@pytest.mark.parametrize("epsilon", [1e5, 1e6])
def test_very_large_epsilons(epsilon: float) -> None:
    """What is left of delta for Skellam noise is e^(-epsilon / 200) of it: no double."""
    x, by = np.arange(40.0), ["a", "b"] * 20
    options: dict[str, Any] = {"lower": 0, "upper": 40, "epsilon": epsilon, "delta": 1e-6}
    with_gaps = np.where(x < 4, np.nan, x)
    groups = mean(x, by=by, groups=["a", "b"], **options)
    present = mean(with_gaps, missing="exclude", **options)
    median = quantiles(x, [0.5], bins=40, **options)
    for result, interval, true in (
        (groups, groups.mean_interval, [19, 20]),
        (present, present.mean_interval, 21.5),
        (median, median.interval, 19),
    ):
        band = interval(1 - 1e-9)
        assert np.all(band.low <= true)
        assert np.all(band.high >= true)
        assert np.all(band.high - band.low <= 1)
        guarantee = result._sum.guarantee
        assert guarantee.epsilon == epsilon
        assert guarantee.delta <= 1e-6
