"""Intervals and tests that hold at every sample size: checked against exact sums over outcomes."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from scipy.optimize import brentq
from scipy.stats import binom, multinomial

from ikos.results.confidence import clopper_pearson, mean_interval, p_value_bound, tail_bound


@pytest.mark.parametrize("confidence", [Fraction(1, 2), Fraction(99, 100)])
@pytest.mark.parametrize("trials", [1, 2, 40])
def test_intervals_cover_at_every_probability(trials: int, confidence: Fraction) -> None:
    """Summed over all outcomes; each end fails with at most half of the rest."""
    ends = [clopper_pearson(k, trials, confidence) for k in range(trials + 1)]
    lower, upper = (np.array(side) for side in zip(*ends, strict=True))
    assert (np.diff(lower) > 0).all()
    assert (np.diff(upper) > 0).all()
    tail = float((1 - confidence) / 2)
    for p in np.linspace(0, 1, 401):
        pmf = binom.pmf(np.arange(trials + 1), trials, p)
        assert pmf[lower > p + 1e-12].sum() <= tail + 1e-9
        assert pmf[upper < p - 1e-12].sum() <= tail + 1e-9


def test_intervals_at_the_extremes_are_in_closed_form() -> None:
    low, high = clopper_pearson(0, 50, Fraction(19, 20))
    assert (low, high) == (0.0, pytest.approx(1 - 0.025 ** (1 / 50)))
    low, high = clopper_pearson(50, 50, Fraction(19, 20))
    assert (low, high) == (pytest.approx(0.025 ** (1 / 50)), 1.0)


# Means of variables in [0, 1]


LAWS: list[tuple[list[float], list[float]]] = [
    ([0.0, 1.0], [0.5, 0.5]),
    ([0.0, 1.0], [0.97, 0.03]),
    ([0.0, 1.0], [0.001, 0.999]),
    ([0.0, 0.5, 1.0], [0.25, 0.5, 0.25]),
    ([0.0, 0.5, 1.0], [0.6, 0.1, 0.3]),
    ([0.0, 0.3, 1.0], [0.05, 0.05, 0.9]),
    ([0.2, 0.7], [0.9, 0.1]),
    ([0.0, 0.1, 0.9, 1.0], [0.4, 0.1, 0.1, 0.4]),
    ([1.0], [1.0]),
    ([0.25], [1.0]),
]


@pytest.mark.parametrize("confidence", [Fraction(1, 5), 0.9])
@pytest.mark.parametrize(("values", "chances"), LAWS)
def test_intervals_of_means_cover_summed_over_all_outcomes(
    values: list[float], chances: list[float], confidence: float | Fraction
) -> None:
    """Each end fails with at most half of the rest; and not much less often with few outcomes."""
    mean = math.fsum(v * p for v, p in zip(values, chances, strict=True))
    tail = float((1 - Fraction(confidence)) / 2)
    for n in (1, 2, 5, 12):
        below = above = 0.0
        for outcome in combinations_with_replacement(range(len(values)), n):
            counts = np.bincount(outcome, minlength=len(values))
            total = math.fsum(values[i] for i in outcome)
            low, high = mean_interval(total, n, confidence)
            assert 0 <= low <= total / n <= high <= 1
            chance = float(multinomial.pmf(counts, n, chances))
            below += chance * (high < mean)
            above += chance * (low > mean)
        assert below <= tail + 1e-9
        assert above <= tail + 1e-9


def test_intervals_of_means_miss_now_and_then() -> None:
    """So that the test of their coverage can fail: with confidence 1/5 one outcome of 40 misses."""
    missed = sum(
        float(binom.pmf(k, 40, 0.5))
        for k in range(41)
        if not mean_interval(k, 40, 0.2)[0] <= 0.5 <= mean_interval(k, 40, 0.2)[1]
    )
    assert 0.1 < missed < 0.8


@pytest.mark.parametrize("trials", [1, 50, 10**12])
@pytest.mark.parametrize("confidence", [0.5, 1 - 1e-9])
def test_ends_of_means_solve_their_equation(trials: int, confidence: float) -> None:
    """n kl(mean, end) = ln(2 / (1 - confidence)), and never inside of it by more than rounding."""
    reach = math.log(2 / float(1 - Fraction(confidence))) / trials

    def excess(mu: float, mean: float) -> float:
        first = mean * math.log(mean / mu) if mean else 0.0
        other = 1 - mean
        return first + (other * math.log(other / (1 - mu)) if other else 0.0) - reach

    for mean in (0.0, 0.125, 0.5, 0.75, 1.0):
        low, high = mean_interval(mean * trials, trials, confidence)
        if trials > 10**6:  # the equation itself is rounded too coarsely
            width = math.sqrt(2 * reach * mean * (1 - mean))
            assert low <= mean - 0.99 * width
            assert high >= mean + 0.99 * width
            assert high - low <= 2.02 * width + 3 * reach + 1e-8
            continue
        for p, end in ((mean, low), (1 - mean, 1 - high)):  # from below, and mirrored
            if p:
                true = float(
                    brentq(excess, 1e-300, p, args=(p,), xtol=1e-300, rtol=1e-14, maxiter=5000)
                )
                assert end <= true * (1 + 1e-12) + 1e-15
                assert end == pytest.approx(true, rel=1e-5, abs=1e-8)


def test_ends_of_means_at_the_extremes_are_in_closed_form() -> None:
    for trials in (1, 10, 1000):
        for confidence in (0.5, 0.95):
            tail = ((1 - confidence) / 2) ** (1 / trials)
            low, high = mean_interval(0, trials, confidence)
            assert (low, high) == (0.0, pytest.approx(1 - tail, rel=1e-6))
            assert high >= 1 - tail
            low, high = mean_interval(trials, trials, confidence)
            assert (low, high) == (pytest.approx(tail, rel=1e-6), 1.0)
            assert low <= tail


@pytest.mark.parametrize("confidence", [0.3, 0.95, 1 - 1e-12])
def test_intervals_of_means_contain_those_of_probabilities(confidence: float) -> None:
    """Clopper and Pearson's know more: that the variables are 0 or 1."""
    for k in range(31):
        low, high = mean_interval(k, 30, confidence)
        narrow = clopper_pearson(k, 30, confidence)
        assert low <= narrow.low + 1e-5  # equal at the extremes, but for rounding outwards
        assert high >= narrow.high - 1e-5
        if 0 < k < 30:
            assert low < narrow.low
            assert high > narrow.high or high == 1


def test_intervals_of_means_are_monotone() -> None:
    """In the total, in the confidence, and in the number of trials."""
    ends = [mean_interval(total, 40, 0.9) for total in np.linspace(0, 40, 161).tolist()]
    for before, after in pairwise(ends):
        assert before.low <= after.low
        assert before.high < after.high or after.high == 1
    for mean in (0.0, 0.1, 0.5, 1.0):
        inner = mean_interval(mean * 40, 40, 0.5)
        wider = mean_interval(mean * 40, 40, 0.99)
        more = mean_interval(mean * 400, 400, 0.5)
        assert wider.low <= inner.low <= more.low <= mean <= more.high <= inner.high <= wider.high
        assert wider.high - wider.low > inner.high - inner.low > more.high - more.low


def test_sums_that_rounding_carries_beyond_all_trials_are_taken() -> None:
    for trials in (3, 10**9):
        assert mean_interval(trials * (1 + 1e-12), trials) == mean_interval(trials, trials)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((-0.1, 10), ValueError, "total must be at least 0, got -0.1"),
        ((10.1, 10), ValueError, "total must be at most 10, got 10.1"),
        ((math.nan, 10), ValueError, "total must be finite, got nan"),
        ((math.inf, 10), ValueError, "total must be finite, got inf"),
        (("5", 10), TypeError, "total must be an int, a Fraction or a float, got str '5'"),
        ((0, 0), ValueError, "trials must be at least 1, got 0"),
        ((1, 2.0), TypeError, "trials must be an integer, got float 2.0"),
        ((1, True), TypeError, "trials must be an integer, got the boolean True"),
        ((1, 2, 1), ValueError, "confidence must be less than 1, got 1"),
        ((1, 2, 0), ValueError, "confidence must be greater than 0, got 0"),
        ((1, 2, None), TypeError, "confidence must be .* got NoneType None"),
    ],
)
def test_means_of_nothing_are_refused(
    arguments: tuple[Any, ...], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        mean_interval(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 5), "successes must be at least 0, got -1"),
        ((6, 5), "successes must be at most 5, got 6"),
        ((0, 0), "trials must be at least 1, got 0"),
        ((1, 5, 1.5), "confidence must be less than 1, got 1.5"),
    ],
)
def test_probabilities_of_nothing_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        clopper_pearson(*arguments)


# Goodness of fit


def test_p_values_refuse_what_is_no_law() -> None:
    with pytest.raises(ValueError, match="counts must be"):
        p_value_bound([1, 2], [0.2, 0.3, 0.5])
    with pytest.raises(ValueError, match=r"add up to 1, got 0\.9"):
        p_value_bound([1, 2], [0.5, 0.4])


def test_outcomes_that_cannot_be_have_p_value_zero() -> None:
    assert p_value_bound([5, 0], [1, 0]) == 1.0
    assert p_value_bound([5, 1], [1, 0]) == 0.0
    assert p_value_bound([5, 1, 4], [0.5, 0, 0.5]) == 0.0


@pytest.mark.parametrize("law", [[0.5, 0.5], [0.9, 0.1], [0.2, 0.3, 0.5], [0.01, 0.01, 0.98]])
def test_p_values_are_bounds_summed_over_all_outcomes(law: list[float]) -> None:
    """P[bound <= a] <= a for each value a that the bound takes."""
    for n in (1, 4, 15):
        found = []
        for outcome in combinations_with_replacement(range(len(law)), n):
            counts = np.bincount(outcome, minlength=len(law))
            found.append((p_value_bound(counts, law), float(multinomial.pmf(counts, n, law))))
        chance = 0.0
        for bound, p in sorted(found):
            chance += p
            assert chance <= bound * (1 + 1e-9) or bound == 1.0


def test_tail_bounds_fall_from_one() -> None:
    for cells in (1, 2, 10, 1000):
        bounds = [tail_bound(t, cells) for t in np.linspace(0, 5000, 400).tolist()]
        assert bounds[0] == 1.0
        assert bounds[-1] < 1e-9
        assert all(0 <= b <= a for a, b in pairwise(bounds))


# Against ball arithmetic, where floating point is at its limits


@pytest.mark.slow
@pytest.mark.parametrize("trials", [1, 10, 160_000_000, 2**50])
@pytest.mark.parametrize("confidence", [0.5, 1 - 1e-9])
def test_intervals_of_many_draws_are_right_and_tight(trials: int, confidence: float) -> None:
    """Each end's tail is at most what it may be; moved inwards a little, it would be more."""
    ctx.prec = 300
    allowed = float(Fraction(1) - Fraction(confidence)) / 2

    def or_more(k: int, p: float) -> Any:
        return arb(p).beta_lower(arb(k), arb(trials - k + 1), True)

    for k in {0, 1, 2, 3, 10, 998, 999, 1000, 1001, trials // 2, trials - 1, trials}:
        if not 0 <= k <= trials:
            continue
        low, high = clopper_pearson(k, trials, confidence)
        share = k / trials
        assert (low == 0) == (k == 0)
        assert high == 1 or k < trials
        assert low <= share <= high
        if k:
            assert or_more(k, low) <= allowed
            assert or_more(k, min(share, low + 1e-4 * (share - low) + 4e-16)) > allowed
        if k < trials:
            assert 1 - or_more(k + 1, high) <= allowed
            assert 1 - or_more(k + 1, max(share, high - 1e-4 * (high - share) - 4e-16)) > allowed


@pytest.mark.parametrize("function", [clopper_pearson, mean_interval])
def test_confidence_that_is_one_to_all_digits_is_refused(function: Any) -> None:
    assert function(5, 10, 1 - Fraction(1, 10**15)).low > 0
    for level in (1 - Fraction(1, 10**16), Fraction(10**400 - 1, 10**400)):
        with pytest.raises(ValueError, match="confidence must be at most 1 - 1e-15"):
            function(5, 10, level)
    with pytest.raises(ValueError, match=r"trials must be at most 1125899906842624"):
        function(5, 10**400)


def test_tail_bound_is_its_formula() -> None:
    """e^-t (e t / (k - 1))^(k - 1), by powers; 1 where it says nothing."""
    for cells, t in ((2, 3.0), (3, 5.0), (6, 11.5), (20, 80.0)):
        formula = math.exp(-t) * (math.e * t / (cells - 1)) ** (cells - 1)
        assert tail_bound(t, cells) == pytest.approx(min(1.0, formula), rel=1e-12)
        assert tail_bound(cells - 1.0, cells) == 1.0
    with pytest.raises(ValueError, match="cells must be at least 1, got 0"):
        tail_bound(5.0, 0)


def test_p_value_takes_the_number_of_possible_cells() -> None:
    counts, chances = [30, 5, 5, 0], [0.25, 0.25, 0.25, 0.25]
    t = 30 * math.log(3) + 2 * 5 * math.log(0.5)
    assert p_value_bound(counts, chances) == pytest.approx(tail_bound(t, 4), rel=1e-12)
    assert p_value_bound([30, 5, 5, 0], [0.25, 0.25, 0.5, 0]) == pytest.approx(
        tail_bound(30 * math.log(3) + 5 * math.log(0.5) + 5 * math.log(0.25), 3), rel=1e-12
    )


@pytest.mark.parametrize(
    ("counts", "chances", "message"),
    [
        ([1, 2], [math.nan, 1], "at least 0 and add up to 1, got nan"),
        ([1, 2], [-1, 2], "at least 0 and add up to 1"),
        ([-1, 2], [0.5, 0.5], "counts must be at least 0"),
    ],
)
def test_p_values_fail_closed(counts: list[int], chances: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        p_value_bound(counts, chances)
