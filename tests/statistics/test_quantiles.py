"""Trees of counts and quantiles: check values, least squares, intervals that hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ikos.statistics import median, quantiles
from ikos.statistics.trees import Tree, fan_outs
from ikos.testing import DeterministicRandom

BUDGET: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}
AGES: dict[str, Any] = {"lower": 0, "upper": 120, "integers": True, **BUDGET}
FANS = [(5,), (2, 2), (3, 4), (2, 3, 2)]


def design(fan: tuple[int, ...]) -> np.ndarray:
    """Return the matrix that adds leaves up to nodes, level by level."""
    tree = Tree(fan)
    leaves = tree.sizes[-1]
    return np.concatenate([np.repeat(np.eye(size), leaves // size, axis=1) for size in tree.sizes])


@pytest.mark.parametrize("fan", FANS)
def test_leaves_are_the_least_squares_estimates(fan: tuple[int, ...]) -> None:
    tree, matrix = Tree(fan), design(fan)
    leaves, users = tree.sizes[-1], 17.0
    counts = np.random.default_rng(1).normal(size=(3, matrix.shape[0]))
    free = np.linalg.lstsq(matrix, counts.T, rcond=None)[0].T
    np.testing.assert_allclose(tree.leaves(counts, None), free, atol=1e-9)
    # of a known number of users: the last leaf is the rest
    rest = np.vstack([np.eye(leaves - 1), -np.ones(leaves - 1)])
    last = np.zeros(leaves)
    last[-1] = users
    some = np.linalg.lstsq(matrix @ rest, (counts - matrix @ last).T, rcond=None)[0]
    np.testing.assert_allclose(tree.leaves(counts, users), (rest @ some).T + last, atol=1e-9)


@pytest.mark.parametrize("fan", FANS)
@pytest.mark.parametrize("known", [True, False])
def test_weights_of_ranks_are_what_the_estimates_add_up(fan: tuple[int, ...], known: bool) -> None:
    tree = Tree(fan)
    nodes, edges = sum(tree.sizes), np.arange(tree.sizes[-1] + 1)
    leaves = tree.leaves(np.eye(nodes), 0.0 if known else None)
    ranks = np.concatenate((np.zeros((nodes, 1)), np.cumsum(leaves, axis=1)), axis=1)
    weights = tree.rank_weights(edges, 0.3, known=known)
    np.testing.assert_allclose(weights, (ranks - 0.3 * ranks[:, -1:]).T, atol=1e-12)


def test_check_values_of_trees() -> None:
    for fan, first, mean, most in (
        ((8,), [0.875, 1.5, 1.875, 2], 1.5, 2),
        ((2, 4), [0.775, 1.1, 0.975, 0.4], None, 1.1),
        ((2, 2, 2), [0.601190, 0.404762, 0.744048, 0.285714], None, 0.744048),
        ((11, 11), [], 3.375, 5.020661),
        ((32, 32), [], 10.348485, 15.507576),
        ((10, 10, 10), [], 4.370736, 6.533763),
    ):
        tree = Tree(fan)
        square = (tree.rank_weights(np.arange(1, tree.sizes[-1])) ** 2).sum(axis=1)
        assert square[: len(first)] == pytest.approx(first, abs=1e-6)
        assert square.max() == pytest.approx(most, abs=1e-6)
        if mean is not None:
            assert square.mean() == pytest.approx(mean, abs=1e-6)


def test_nodes_of_all_trees_hold_the_bins() -> None:
    for bins in range(2, 3000):
        fan = fan_outs(bins)
        assert bins <= Tree(fan).sizes[-1] < bins * 1.35
        assert len(fan) == (1 if bins <= 45 else 2 if bins <= 800 else 3)


def ages(n: int) -> np.ndarray:
    return np.clip(np.random.default_rng(2).gamma(8, 6, n), 0, 120).astype(int)


def test_quartiles_of_ages() -> None:
    x = ages(5000)
    result = quantiles(x, rng=DeterministicRandom(0), **AGES)
    truth = np.quantile(x, (0.25, 0.5, 0.75), method="inverted_cdf")
    assert np.abs(result.estimate - truth).max() <= 3
    band = result.interval()
    assert (band.low <= result.estimate).all()
    assert (result.estimate <= band.high).all()
    assert (band.high - band.low).max() <= 6
    edges, share = result.cdf()
    assert edges[0] == 0
    assert share[-1] == 1
    assert (np.diff(share) >= 0).all()


def test_ranks_are_those_of_decimals() -> None:
    """0.1 of ten users is the smallest value, although the double is above a tenth."""
    x = np.arange(10)
    levels = (0.1, 0.3, 0.99)
    result = quantiles(
        x,
        levels,
        lower=0,
        upper=9,
        integers=True,
        epsilon=50,
        delta=1e-6,
        rng=DeterministicRandom(0),
    )
    assert result.estimate.tolist() == [0, 2, 9]
    assert result.interval().low.tolist() == [0, 2, 9]
    assert result.interval().high.tolist() == [0, 2, 9]


def test_reals_by_groups_with_missing_values() -> None:
    rng = np.random.default_rng(3)
    x, by = rng.random(6000) ** 2, rng.choice(["a", "b"], 6000)
    x[:1000] = np.nan
    results = quantiles(
        x,
        by=by,
        groups=["a", "b", "c"],
        bins=64,
        missing="exclude",
        lower=0,
        upper=1,
        rng=DeterministicRandom(0),
        **BUDGET,
    )
    for label in ("a", "b"):
        some = x[(by == label) & ~np.isnan(x)]
        assert np.abs(results[label].estimate - np.quantile(some, (0.25, 0.5, 0.75))).max() < 0.06
    assert np.isnan(results["c"].estimate).all()
    alone = median(
        x, bins=64, missing="exclude", lower=0, upper=1, rng=DeterministicRandom(0), **BUDGET
    )
    assert abs(alone.estimate[0] - np.nanmedian(x)) < 0.04


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("n", "bins"), [(300, 40), (2000, 121), (2000, 1000)])
def test_intervals_of_quantiles_hold(n: int, bins: int, known: bool) -> None:
    """With noise drawn anew on the counts of one release, every one at least as often as stated."""
    rng, draws = np.random.default_rng(4), 400
    x = rng.integers(0, bins, n)
    values = x.astype(float)
    if not known:
        values[: n // 3] = np.nan
    result = quantiles(
        values, lower=0, upper=bins - 1, integers=True, rng=DeterministicRandom(0), **BUDGET,
        missing="refuse" if known else "exclude",
    )  # fmt: skip
    some = values[~np.isnan(values)].astype(int)
    tree = Tree(fan_outs(bins))
    nodes = np.concatenate(
        [np.bincount(some // (tree.sizes[-1] // size), minlength=size) for size in tree.sizes]
    )
    noise = result.private.error.coordinate.noise
    success = -np.expm1(-float(noise.rate))
    truth = np.quantile(some, result.q, method="inverted_cdf")
    missed, wider = np.zeros(3), 0
    for _ in range(draws):
        drawn = rng.geometric(success, nodes.size) - rng.geometric(success, nodes.size)
        again = replace(result, private=replace(result.private, estimate=nodes + drawn))
        band = again.interval()
        missed += (band.low > truth) | (band.high < truth)
        wide = again.interval(simultaneous=True)
        wider += int(((wide.low > truth) | (wide.high < truth)).any())
    limit = stats.binom.isf(1e-10, draws, 0.05)
    assert missed.max() <= limit
    assert wider <= limit


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"q": [0.5, 1]}, "q must be less than 1, got 1"),
        ({"q": []}, "q must hold at least one number"),
        ({"q": 0.5}, "q must be a sequence"),
        ({"bins": 1}, "bins must be at least 2, got 1"),
        ({"bins": 122}, "bins must be at most 121, got 122"),
        ({"groups": ["a"]}, "by must hold the users' labels"),
        ({"sensitivity": 1}, "unexpected keyword argument 'sensitivity'"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        quantiles([1, 2, 3], **options, **AGES)


def test_a_median_is_reproducible() -> None:
    first, second = (median(ages(500), rng=DeterministicRandom(1), **AGES) for _ in range(2))
    assert first.estimate == second.estimate
    assert "0.5-quantile" in str(first)
