"""The analyzer's view at tiny sizes: its law counted from the definition, and the library's own.

All numbers are fractions.
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
)
from statistical import FALSE_ALARM, outcome_p_value

from ikos import SecureSum, View, security_level
from ikos.primitives.randomness import RandomSource
from ikos.testing import DeterministicRandom

SETTINGS = [("parallel", False), ("single", False), ("parallel", True), ("single", True)]
each_setting = pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)


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
