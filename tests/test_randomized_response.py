"""Randomized response: its law, its debiasing and its variance, all as exact rationals."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from exact.enumeration import Ideal, exact_law
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from statistical import FALSE_ALARM, p_value_bound

from ikos.primitives.randomized_response import GRID, debias, grid_up, respond, response_variance
from ikos.primitives.randomness import RandomSource
from ikos.testing import DeterministicRandom


class Played(Ideal):
    """Plays Bernoulli variables as what they claim to be, too."""

    def bernoullis(self, probability: Fraction, size: int) -> NDArray[np.bool_]:
        return np.array([self.flip(Fraction(probability)) for _ in range(size)], dtype=np.bool_)


def response_law(true: int, k: int, gamma: Fraction) -> dict[int, Fraction]:
    """Return the law of one response, from its definition."""
    return {y: gamma / k + (1 - gamma) * (y == true) for y in range(k)}


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 2), Fraction(3, 8), Fraction(1)])
def test_law_of_responses_by_enumeration(k: int, gamma: Fraction) -> None:
    """Two users: each has the law of one, and they are independent."""
    for first, second in ((0, k - 1), (1, 1)):

        def experiment(rng: RandomSource, x: tuple[int, int] = (first, second)) -> tuple[int, ...]:
            return tuple(respond(np.array(x), k, gamma, rng).tolist())

        law, unfinished = exact_law(experiment, Played)
        assert unfinished == 0
        a, b = response_law(first, k, gamma), response_law(second, k, gamma)
        expected = {(y, z): a[y] * b[z] for y in a for z in b if a[y] * b[z]}
        assert {pair: p for pair, p in law.items() if p} == expected


@given(st.integers(2, 9), st.fractions(0, Fraction(99, 100)), st.data())
def test_debiased_responses_are_unbiased(k: int, gamma: Fraction, data: st.DataObject) -> None:
    true = data.draw(st.lists(st.integers(0, k - 1), min_size=1, max_size=3))
    expected = sum((y * p for x in true for y, p in response_law(x, k, gamma).items()), Fraction(0))
    # linear in the total, so that the expectation of the estimate is the estimate at this one
    assert debias_at(expected, len(true), k, gamma) == sum(true)


def debias_at(total: Fraction, users: int, k: int, gamma: Fraction) -> Fraction:
    low = total.numerator // total.denominator
    at, above = (debias(t, users, k, gamma) for t in (low, low + 1))
    return at + (total - low) * (above - at)


def test_the_papers_debiasing_is_biased() -> None:
    """BBGN20, Algorithm 2 takes (p + 1)/2 for the mean of a uniform value on {0..p}."""
    k, gamma, users = 7, Fraction(1, 4), 100
    mean = users * gamma * Fraction(k - 1, 2)  # everybody's value is 0
    assert debias_at(mean, users, k, gamma) == 0
    assert (mean - users * gamma * Fraction(k, 2)) / (1 - gamma) == Fraction(-50, 3)


@given(st.integers(2, 15), st.fractions(0, Fraction(9, 10), max_denominator=64))
def test_variance_formula_is_the_largest_over_true_values(k: int, gamma: Fraction) -> None:
    variances = []
    for true in range(k):
        law = response_law(true, k, gamma)
        mean = sum((y * p for y, p in law.items()), Fraction(0))
        square = sum((y * y * p for y, p in law.items()), Fraction(0))
        variances.append((square - mean**2) / (1 - gamma) ** 2)
    assert response_variance(k, float(gamma)) == pytest.approx(float(max(variances)), rel=1e-12)
    assert max(variances) == variances[0] == variances[-1]


def test_variance_with_the_papers_count_of_values_is_too_small() -> None:
    """k = p on {0..p}: what BBGN20 print for the privacy of Theorem 4.1 counts a value too few."""
    assert response_variance(6, 0.1) < response_variance(7, 0.1)


@given(st.fractions(0, 1))
def test_grid_up_is_the_next_multiple(gamma: Fraction) -> None:
    up = grid_up(gamma)
    assert (up * GRID).denominator == 1
    assert gamma <= up < gamma + Fraction(1, GRID)
    assert grid_up(up) == up
    assert Fraction(float(up)) == up  # a double


# The library's own stream

Respond = Callable[[NDArray[np.int64], int, Fraction, RandomSource], NDArray[np.int64]]
K, GAMMA, USERS = 5, grid_up(Fraction(1, 7)), 400_000


def check_law(respond_: Respond) -> None:
    """400,000 users with value 3: the law of a response."""
    drawn = respond_(np.full(USERS, 3), K, GAMMA, DeterministicRandom(1))
    law = response_law(3, K, GAMMA)
    counts = np.bincount(drawn, minlength=K)
    assert p_value_bound(counts, [float(law[y]) for y in range(K)]) > FALSE_ALARM


def with_another_value(
    x: NDArray[np.int64], k: int, gamma: Fraction, rng: RandomSource
) -> NDArray[np.int64]:
    """Never the truth where the answer is random."""
    lies = rng.bernoullis(gamma, x.size)
    return np.where(lies, (x + 1 + rng.uniform(k - 1, x.size).astype(np.int64)) % k, x)


def with_an_exclusive_end(
    x: NDArray[np.int64], k: int, gamma: Fraction, rng: RandomSource
) -> NDArray[np.int64]:
    """Uniform on {0..k-2}."""
    return np.where(rng.bernoullis(gamma, x.size), rng.uniform(k - 1, x.size).astype(np.int64), x)


def with_the_truth_and_the_lie_swapped(
    x: NDArray[np.int64], k: int, gamma: Fraction, rng: RandomSource
) -> NDArray[np.int64]:
    return respond(x, k, 1 - gamma, rng)


def with_five_per_cent_less(
    x: NDArray[np.int64], k: int, gamma: Fraction, rng: RandomSource
) -> NDArray[np.int64]:
    return respond(x, k, grid_up(gamma * Fraction(19, 20)), rng)


def with_one_lie_for_all(
    x: NDArray[np.int64], k: int, gamma: Fraction, rng: RandomSource
) -> NDArray[np.int64]:
    return np.where(rng.bernoullis(gamma, x.size), rng.integer(k), x)


def test_the_law_of_the_stream() -> None:
    check_law(respond)


@pytest.mark.parametrize(
    "mutant",
    [
        with_another_value,
        with_an_exclusive_end,
        with_the_truth_and_the_lie_swapped,
        with_five_per_cent_less,
        with_one_lie_for_all,
    ],
)
def test_mutants_are_found(mutant: Respond) -> None:
    with pytest.raises(AssertionError):
        check_law(mutant)


def test_values_are_left_alone_and_users_lie_independently() -> None:
    x = np.arange(600_000) % 2
    kept = x.copy()
    drawn = respond(x, 2, grid_up(0.5), DeterministicRandom(2))
    assert (x == kept).all()
    lied = (drawn != x).astype(int)  # with probability 1/4, across the blocks of the computation
    pairs = 2 * lied[:-1:2] + lied[1::2]
    law = [9 / 16, 3 / 16, 3 / 16, 1 / 16]
    assert p_value_bound(np.bincount(pairs, minlength=4), law) > FALSE_ALARM
    assert (respond(x, 2, Fraction(0), DeterministicRandom(2)) == x).all()
