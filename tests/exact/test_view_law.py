"""The analyzer's view at tiny sizes: its law counted from the definition, and the library's own.

All numbers are fractions. The worst-case total variation is over all pairs of inputs with the same
sum.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from exact.enumeration import (
    Ideal,
    Law,
    exact_law,
    view_law,
    worst_case_variation,
)
from statistical import FALSE_ALARM, outcome_p_value

from ikos import SecureSum, View, security_level
from ikos.primitives.randomness import RandomSource
from ikos.testing import DeterministicRandom

SETTINGS = [("parallel", False), ("single", False), ("parallel", True), ("single", True)]
each_setting = pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)


@pytest.mark.points(2)
@pytest.mark.parametrize(
    ("size", "parallel", "single", "with_clear"),
    [
        ((2, 2, 2), Fraction(1, 2), Fraction(1, 2), Fraction(1, 4)),
        ((3, 2, 3), Fraction(1, 4), Fraction(9, 64), Fraction(1, 8)),
        ((4, 2, 3), Fraction(13, 64), Fraction(5, 32), Fraction(41, 512)),
        ((3, 3, 2), Fraction(7, 9), Fraction(5, 9), Fraction(31, 81)),
    ],
)
def test_worst_case_total_variation_has_its_published_exact_values(
    size: tuple[int, int, int], parallel: Fraction, single: Fraction, with_clear: Fraction
) -> None:
    n, q, m = size
    assert worst_case_variation(n, q, m, "parallel", False) == parallel
    assert worst_case_variation(n, q, m, "single", False) == single
    assert worst_case_variation(n, q, m, "parallel", True) == with_clear


def outcome(view: View) -> Any:
    """Return a view as multisets, and the clear shares in order."""
    columns = tuple(tuple(sorted(int(v) for v in column)) for column in view.columns)
    return columns, None if view.clear is None else tuple(int(v) for v in view.clear)


def run(protocol: SecureSum, x: tuple[int, ...], rng: RandomSource, order: str) -> View:
    return protocol.shuffle(protocol.share(x, rng), rng, order=order)


def make(n: int, q: int, m: int, shuffler: str, clear: bool) -> SecureSum:
    return SecureSum(n, q, messages=m + clear, shuffler=shuffler, clear_share=clear)


@each_setting
@pytest.mark.parametrize(("n", "q", "m"), [(1, 3, 2), (2, 2, 2), (2, 3, 2), (3, 2, 2), (2, 4, 1)])
def test_library_views_follow_the_counted_law_exactly(
    n: int, q: int, m: int, shuffler: str, clear: bool
) -> None:
    """Every choice of shares is played through `share` and `shuffle`, for every input."""
    protocol = make(n, q, m, shuffler, clear)
    for x in product(range(q), repeat=n):
        law, unfinished = exact_law(lambda rng, x=x: outcome(run(protocol, x, rng, "sorted")))
        assert unfinished == 0
        assert law == view_law(x, q, m, shuffler, clear)


@each_setting
def test_permuted_views_are_uniform_orders_of_the_same_multisets(
    shuffler: str, clear: bool
) -> None:
    """The law on tuples: every order of every column alike, independently between shufflers."""
    n, q, m = 2, 2, 2
    protocol = make(n, q, m, shuffler, clear)

    def in_order(rng: Ideal, x: tuple[int, ...]) -> Any:
        view = run(protocol, x, rng, "permuted")
        columns = tuple(tuple(int(v) for v in column) for column in view.columns)
        return columns, outcome(view)[1]

    for x in [(0, 0), (0, 1), (1, 1)]:
        law, _ = exact_law(lambda rng, x=x: in_order(rng, x))
        expected: Law = {}
        for (columns, clear_row), p in view_law(x, q, m, shuffler, clear).items():
            orders = [sorted(set(permutations(column))) for column in columns]
            for ordered in product(*orders):
                expected[ordered, clear_row] = p / math.prod(len(options) for options in orders)
        assert law == expected


@pytest.mark.points(0)
@each_setting
@pytest.mark.parametrize("order", ["sorted", "permuted"])
@pytest.mark.parametrize("draws", [2000, pytest.param(6000, marks=pytest.mark.slow)])
def test_sampled_views_fit_the_counted_law(
    shuffler: str, clear: bool, order: str, draws: int
) -> None:
    """With the real keystream; proved false-alarm rate 1e-9."""
    n, q, m, x = 3, 3, 2, (0, 1, 1)
    protocol = make(n, q, m, shuffler, clear)
    rng = DeterministicRandom(70)
    drawn = [outcome(run(protocol, x, rng, order)) for _ in range(draws)]
    law = view_law(x, q, m, shuffler, clear)
    if clear:  # too many cells for the sample: the shuffled part, and two of the clear shares
        drawn = [(columns, clear_row[:1]) for columns, clear_row in drawn]
        pooled: Counter[Any] = Counter()
        for (columns, clear_row), p in law.items():
            pooled[columns, clear_row[:1]] += p
        law = dict(pooled)
    assert outcome_p_value(drawn, law) > FALSE_ALARM


@pytest.mark.parametrize("m", [7, 8, 9, 12])
def test_original_analysis_holds_where_it_proves_something(m: int) -> None:
    """n = 2, q = 2, one shuffler: the law of the number of ones, given the inputs' parities."""
    sigma = security_level(2, 2, m, analysis="ishai2006", shuffler="single", clear_share=False)
    assert sigma > 0

    def ones(bit: int) -> list[int]:
        return [math.comb(m, k) if k % 2 == bit else 0 for k in range(m + 1)]

    def total(a: int, b: int) -> list[int]:
        return [int(v) for v in np.convolve(ones(a), ones(b))]

    pairs = zip(total(0, 0), total(1, 1), strict=True)
    variation = Fraction(sum(abs(a - b) for a, b in pairs), 2 * 4 ** (m - 1))
    assert 0 < variation <= Fraction(2.0**-sigma)


def weight_laws(n: int, m: int) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    """Return, for q = 2 and each number w of users whose shuffled shares are odd in sum, how many
    share choices give each vector of the m columns' numbers of ones.

    A view of parallel shufflers is that vector, and by symmetry its law depends on w alone.
    """
    shape = (n + 1,) * m

    def add_user(counts: Any, bit: int) -> Any:
        result = np.zeros(shape, dtype=np.int64)
        for shares in product(range(2), repeat=m):
            if sum(shares) % 2 == bit:
                source = tuple(slice(0, n + 1 - s) for s in shares)
                target = tuple(slice(s, n + 1) for s in shares)
                result[target] += counts[source]
        return result

    start = np.zeros(shape, dtype=np.int64)
    start[(0,) * m] = 1
    laws = []
    for odd in range(n + 1):
        counts = start
        for user in range(n):
            counts = add_user(counts, int(user < odd))
        laws.append(counts)
    return laws


def clear_share_variation(n: int, m: int) -> Fraction:
    """Return the exact worst-case total variation for q = 2, parallel shufflers, a clear share.

    Given the clear shares, which are uniform, what the shuffled shares of user i add up to is
    uniform and known; two inputs that differ on k users make it differ there. With a of these k
    odd, and b of the others, the two views have weights a + b and k - a + b. The average over
    (a, b) does not depend on the inputs.
    """
    laws = weight_laws(n, m)
    choices = 2 ** (n * (m - 1))
    assert all(int(law.sum()) == choices for law in laws)
    distance = {
        (v, w): Fraction(int(np.abs(laws[v] - laws[w]).sum()), 2 * choices)
        for v in range(n + 1)
        for w in range(v % 2, n + 1, 2)
    }
    return max(
        sum(
            (
                Fraction(math.comb(k, a) * math.comb(n - k, b), 2**n) * distance[a + b, k - a + b]
                for a in range(k + 1)
                for b in range(n - k + 1)
            ),
            Fraction(0),
        )
        for k in range(2, n + 1, 2)
    )


@pytest.mark.points(2)
@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 3), pytest.param(4, 3, marks=pytest.mark.slow)])
def test_symmetric_computation_equals_the_enumeration(n: int, m: int) -> None:
    assert clear_share_variation(n, m) == worst_case_variation(n, 2, m, "parallel", True)


@pytest.mark.points(1)
@pytest.mark.parametrize(
    ("n", "m"),
    [(19, 3), (20, 3), (21, 3), (19, 4)],
)
def test_corollary_6_1_holds_exactly_at_the_edge_of_its_range(n: int, m: int) -> None:
    """n = 19, q = 2, m = 3 is the smallest case that it covers: exact variation <= 2^-sigma."""
    sigma = security_level(n, 2, m, analysis="balle2020")
    assert sigma > 0
    variation = clear_share_variation(n, m)
    assert 0 < variation <= Fraction(2.0**-sigma)
