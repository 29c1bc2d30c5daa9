"""Messages that are necessary: exact moments, exact total variations, and printed levels."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import gmpy2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos import message_count, security_level
from ikos.counts import necessary, necessary_messages, security_interval
from ikos.counts.floor import counting_floor
from ikos.counts.necessary import Difference, lower_bound
from ikos.counts.share_graph import ShareGraph
from ikos.numeric.rounding import DOWN, rounding


def total_variation(
    n: int, q: int, graph: ShareGraph, y: Difference, *, normal: bool = True
) -> gmpy2.mpfr:
    found = lower_bound(n, q, graph, y, normal=normal)
    return gmpy2.mpfr(0) if found is None else found.total_variation


def entries(*y: int) -> list[tuple[int, int]]:
    return sorted(Counter(y).items())


def fourth_moment(n: int, q: int, graph: ShareGraph, y: list[tuple[int, int]]) -> float:
    own = sum(k * necessary.fourth_moment(n, q, graph, v) for v, k in y)
    pairs = sum(
        k * (j - (v == w)) * necessary.pair_moment(n, q, graph, v, w) for v, k in y for w, j in y
    )
    return float(own + 3 * pairs)


@pytest.mark.parametrize(
    ("n", "m", "q", "y", "moment"),
    [
        (5, 2, 3, (1, 1, 1, 2, 1), "39366/3125"),
        (5, 2, 4, (1, 1, 2, 3, 1), "290176/15625"),
        (5, 2, 5, (1, 1, 3, 4, 1), "75274/3125"),
        (6, 3, 2, (1,) * 6, "4096/6561"),
    ],
)
def test_fourth_moments_of_parallel_shufflers(n, m, q, y, moment):
    found = fourth_moment(n, q, ShareGraph(m, "parallel", True), entries(*y))
    assert math.isclose(found, Fraction(moment), rel_tol=1e-14)


@pytest.mark.parametrize(
    ("n", "m", "q", "y", "fourth", "pair"),
    [
        (3, 2, 3, 1, "106/125", "212/375"),
        (2, 3, 4, 2, "28/25", "93/125"),
        (4, 2, 3, 1, "3105/10976", "1035/5488"),
    ],
)
def test_fourth_moments_of_a_single_shuffler(n, m, q, y, fourth, pair):
    graph = ShareGraph(m, "single", True)
    found = necessary.fourth_moment(n, q, graph, y), necessary.pair_moment(n, q, graph, y, y)
    assert [float(value) for value in found] == pytest.approx(
        [float(Fraction(fourth)), float(Fraction(pair))], rel=1e-14
    )


@pytest.mark.parametrize(
    ("n", "m", "q", "y", "bound", "true"),
    [
        (8, 4, 3, (1, 2) * 4, 0.000287978, "212072794748/7625597484987"),
        (9, 4, 3, (1, 1, 1, 2, 1, 2, 1, 2, 1), 0.00160026, "40600967618767/1853020188851841"),
        (16, 6, 2, (1,) * 16, 0.0000179453, "0.000180223"),
        (20, 4, 2, (1,) * 20, 0.000410059, "0.00339635"),
        (3, 4, 3, (1, 2), 0.0121673, "512/6561"),
        (2, 3, 5, (1, 4), 0.269975, "48/125"),
        (2, 7, 2, (1, 1), 1 / 128, "1/128"),
    ],
)
def test_below_the_exact_total_variation(n, m, q, y, bound, true):
    found = float(total_variation(n, q, ShareGraph(m, "parallel", True), entries(*y)))
    assert found == pytest.approx(bound, rel=1e-5)
    assert found <= float(Fraction(true)) * (1 + 1e-12)


def bits(n: int, q: int, graph: ShareGraph, *, normal: bool) -> float:
    tried = necessary._differences(n, q, graph)
    with rounding(DOWN):
        return -float(
            gmpy2.log2(max(total_variation(n, q, graph, y, normal=normal) for y in tried))
        )


@pytest.mark.parametrize(
    ("n", "log_q", "m", "shuffler", "clear", "hoelder", "normal"),
    [
        (10**3, 64, 24, "parallel", True, 83.899001, 83.535699),
        (10**3, 32, 12, "parallel", True, 40.104297, 39.745427),
        (10**6, 64, 13, "parallel", True, 88.881893, 88.418297),
        (10**2, 64, 35, "parallel", True, 82.238036, 82.135749),
        (10, 64, 68, "parallel", True, 81.206694, None),
        (10, 64, 69, "parallel", True, 83.171596, None),
        (10**9, 128, 14, "parallel", True, 131.625275, 131.158641),
        (10**3, 64, 25, "parallel", False, 83.899001, None),
        (10**3, 64, 21, "single", True, None, 81.966098),
        (10**3, 64, 22, "single", False, 83.031929, None),
    ],
)
def test_levels_of_another_implementation(n, log_q, m, shuffler, clear, hoelder, normal):
    graph = ShareGraph(m, shuffler, clear)
    if hoelder is not None:
        assert bits(n, 2**log_q, graph, normal=False) == pytest.approx(hoelder, abs=1e-6)
    if normal is not None:
        assert bits(n, 2**log_q, graph, normal=True) == pytest.approx(normal, abs=1e-6)


def test_nothing_is_said_where_the_theorem_says_nothing() -> None:
    assert necessary.level(1, 2**64, ShareGraph(5, "parallel", True)) == math.inf
    assert necessary.level(1000, 2**64, ShareGraph(1, "parallel", True)) == math.inf
    assert necessary.level(999, 2**64, ShareGraph(25, "parallel", False)) == math.inf
    assert necessary.level(1000, 2**64, ShareGraph(3, "parallel", True)) == math.inf


@pytest.mark.parametrize(
    ("n", "q", "m", "shuffler", "variation"),
    [
        (3, 2, 2, "parallel", Fraction(1, 4)),  # 1 = -1: entries are merged
        (6, 3, 3, "single", Fraction(6510356, 129140163)),
        (8, 3, 4, "parallel", Fraction(212072794748, 7625597484987)),
    ],
)
def test_levels_are_above_the_truth(n, q, m, shuffler, variation):
    assert necessary.level(n, q, ShareGraph(m, shuffler, True)) >= -math.log2(variation)


def test_differences_add_up_and_are_merged() -> None:
    for n in range(2, 12):
        for q in (2, 3, 4, 5, 6, 8, 16, 2**32):
            for y in necessary._differences(n, q, ShareGraph(3, "parallel", True)):
                values = [value for value, _ in y]
                assert len(set(values)) == len(values)
                assert 0 not in values
                assert sum(value * count for value, count in y) % q == 0
                assert total_variation(n, q, ShareGraph(3, "parallel", True), y) >= 0


@pytest.mark.parametrize(
    ("n", "clear", "y"),
    [
        (5, True, [(1, 1)]),  # does not add up to 0
        (3, True, [(1, 1), (2, 1), (3, 1)]),  # no entry is 0
        (6, False, [(1, 3), (2, 3)]),
    ],
)
def test_outside_the_theorem_nothing_is_claimed(n, clear, y):
    assert total_variation(n, 6, ShareGraph(5, "parallel", clear), y) == 0
    assert total_variation(5, 6, ShareGraph(1, "parallel", True), [(1, 1), (5, 1)]) == 0


# Counts

SETTINGS = [("parallel", True), ("parallel", False), ("single", True), ("single", False)]


@pytest.mark.parametrize(
    ("n", "sigma", "log_q", "counts"),
    [
        (10, 40, 32, (34, 35, 23)), (10, 128, 64, (91, 92, 60)), (10, 128, 128, (116, 117, 80)),
        (100, 80, 64, (35, 36, 29)), (100, 128, 32, (43, 44, 33)), (1000, 40, 32, (13, 13, 11)),
        (1000, 80, 64, (24, 25, 21)), (10**4, 128, 64, (25, 26, 23)), (10**6, 80, 64, (13, 14, 12)),
        (10**6, 128, 128, (21, 22, 19)), (10**9, 128, 128, (14, 15, 14)),
    ],
)  # fmt: skip
def test_necessary_counts_of_another_implementation(n, sigma, log_q, counts):
    found = [
        necessary_messages(n, 2**log_q, sigma, shuffler=shuffler, clear_share=clear)
        for shuffler, clear in SETTINGS[:3]
    ]
    assert found == list(counts)


@pytest.mark.parametrize(
    ("n", "sigma", "log_q", "first", "last"),
    [(1000, 80, 64, 8, 21), (10**6, 128, 64, 6, 16), (100, 80, 64, 11, 29), (10, 80, 64, 20, 45)],
)
def test_a_single_shuffler_without_a_clear_share(n, sigma, log_q, first, last):
    """Every count is excluded by itself, from the least one of which the theorem speaks."""
    excluded = [
        m for m in range(3, last + 3)
        if necessary.level(n, 2**log_q, ShareGraph(m, "single", False)) < sigma
    ]  # fmt: skip
    assert excluded == list(range(first, last + 1))
    how = {"shuffler": "single", "clear_share": False}
    floor = counting_floor(n, 2**log_q, sigma, shuffler="single")
    expected = last + 1 if floor >= first else floor
    assert necessary_messages(n, 2**log_q, sigma, **how) == expected  # type: ignore[arg-type]


@pytest.mark.slow
@given(
    n=st.one_of(st.integers(1, 60), st.integers(100, 10**7)),
    q=st.one_of(st.integers(2, 2**40), st.integers(1, 150).map(lambda b: 2**b)),
    sigma=st.floats(0.5, 130),
    setting=st.sampled_from(SETTINGS),
)
def test_necessary_is_at_most_sufficient(n, q, sigma, setting):
    shuffler, clear = setting
    how = {"shuffler": shuffler, "clear_share": clear}
    enough = message_count(n, q, sigma, **how).shuffled  # type: ignore[arg-type]
    needed = necessary_messages(n, q, sigma, **how)  # type: ignore[arg-type]
    assert 1 <= needed <= enough
    for m in {needed, enough}:
        low, high = security_interval(n, q, m, **how)  # type: ignore[arg-type]
        assert low == security_level(n, q, m, **how) <= high  # type: ignore[arg-type]
    if needed > 1 and setting != ("single", False):
        few = security_interval(n, q, needed - 1, **how)[1]  # type: ignore[arg-type]
        floor = counting_floor(n, q, sigma, **how)  # type: ignore[arg-type]
        assert few < sigma or needed == floor


def test_dishonest_users_and_shufflers() -> None:
    n, q, sigma = 1000, 2**64, 80
    assert necessary_messages(n, q, sigma, min_honest=100) == necessary_messages(100, q, sigma)
    for clear in (True, False):  # what colluding shufflers hold is in clear
        found = necessary_messages(n, q, sigma, clear_share=clear, corrupt_shufflers=2)
        assert found == necessary_messages(n, q, sigma) + 2
        enough = message_count(n, q, sigma, clear_share=clear, corrupt_shufflers=2)
        assert found <= enough.shuffled


def test_levels_of_fewer_messages_are_bounded_by_those_of_more() -> None:
    """Where the theorem says nothing of m itself."""
    assert necessary.level(10**6, 2**64, ShareGraph(2, "parallel", True)) == math.inf
    assert security_interval(10**6, 2**64, 2) == (0.0, pytest.approx(8.69754, abs=1e-5))
    assert security_interval(1, 2**64, 2) == (math.inf, math.inf)
    assert security_interval(1000, 2**64, 3, shuffler="single", clear_share=False) == (0, math.inf)
