"""The exact second-moment analysis against an independent evaluation."""

from __future__ import annotations

import itertools
import math
from typing import Any

import gmpy2
import pytest
from counts.moments import SETTINGS, bits, precisely, recursion
from gmpy2 import mpfr, mpq
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ikos import message_count, security_level
from ikos.counts import largest_component, second_moment
from ikos.counts import recursion as library
from ikos.counts.share_graph import ShareGraph
from ikos.numeric.rounding import DOWN, rounding

EVERY_SETTING = pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)


def graph(hiding: int, shuffler: str, clear: bool) -> ShareGraph:
    return ShareGraph(hiding if clear else hiding + 1, shuffler, clear)


def compare(n: int, q: int, m: int, shuffler: str, clear: bool, *, gap: float = 1e-6) -> float:
    """Assert that a level is below the truth, and next to it if that is 10 bits or more.

    Returns the true level, rounded.
    """
    level = security_level(n, q, m, shuffler=shuffler, clear_share=clear)
    assert level >= 0
    if not clear and m == 1:
        assert level == 0 or n == 1  # the share is the input: B = C(k, s), and nothing hides
        return 0.0
    with precisely():
        divergence = recursion(n, q, m, shuffler, clear).divergence[n]
        if not divergence.is_finite() or not divergence > 0:
            # so few connections that 500 bits are not enough: then q^C explodes
            assert m - (not clear) == 1
            assert level == 0
            return 0.0
        true = bits(divergence)
        assert true.rad() < 1e-12
        assert level == 0 or level <= true.upper()
        if true > 10:
            assert true - level < gap
        return float(true)


# Values


@pytest.mark.parametrize(
    ("n", "m", "q", "shuffler", "clear", "value"),
    [
        (10, 4, 2**8, "parallel", True, "0.314379"),
        (30, 4, 2**8, "parallel", True, "0.00949695"),
        (3, 3, 3, "single", True, "0.07262"),
        (4, 2, 2, "single", False, "0.82857"),
    ],
)
def test_excess_at_the_check_values(n, m, q, shuffler, clear, value):
    digits = len(value.split(".")[1])
    found = library.rational(n, q, ShareGraph(m, shuffler, clear)).excess[n]
    assert f"{float(found):.{digits}f}" == value
    with precisely():
        again = recursion(n, q, m, shuffler, clear).excess[n]
        assert abs(float(again) - float(found)) < 1e-15


# Soundness and tightness


@EVERY_SETTING
def test_levels_are_below_the_truth_and_next_to_it(shuffler: str, clear: bool) -> None:
    for q, sigma in itertools.product((2, 2**16 + 1, 2**512), (0.5, 11, 80)):
        count = message_count(19, q, sigma, shuffler=shuffler, clear_share=clear).shuffled
        for m in {max(1, count - 1), count}:
            compare(19, q, m, shuffler, clear)


@given(
    n=st.integers(2, 120),
    q=st.one_of(st.integers(2, 70), st.integers(2, 2**64), st.integers(1, 512).map(lambda b: 2**b)),
    sigma=st.one_of(st.floats(0.1, 12), st.floats(0.1, 300)),
    fewer=st.integers(-2, 3),
    setting=st.sampled_from(SETTINGS),
)
@settings(max_examples=300)
@pytest.mark.slow
def test_any_level_is_below_the_truth_and_next_to_it(n, q, sigma, fewer, setting):
    shuffler, clear = setting
    count = message_count(n, q, sigma, shuffler=shuffler, clear_share=clear).shuffled
    compare(n, q, max(1, count - fewer), shuffler, clear)


@pytest.mark.points(0)
@pytest.mark.parametrize(
    ("shuffler", "clear"),
    [
        ("parallel", True),
        pytest.param("single", False, marks=pytest.mark.slow),
        pytest.param("parallel", False, marks=pytest.mark.slow),
        pytest.param("single", True, marks=pytest.mark.slow),
    ],
)
def test_levels_beyond_the_recursion(shuffler: str, clear: bool) -> None:
    n = second_moment.LONGEST_RECURSION + 1
    for q, hiding in [(2, 2), (2, 3), (2**20 + 7, 5)]:
        share = graph(hiding, shuffler, clear)
        assert second_moment.bound((n, n), q, share).method in ("largest component", "nothing")
        true = compare(n, q, share.m, shuffler, clear)
        level = security_level(n, q, share.m, shuffler=shuffler, clear_share=clear)
        assert true - level < 1e-5 or true < 1


@pytest.mark.slow
@EVERY_SETTING
@pytest.mark.parametrize("n", [256, 1026])
def test_levels_of_a_thousand_users(n: int, shuffler: str, clear: bool) -> None:
    orders = (2, 2**20 + 7, 2**512)  # the second is that of `test_levels_beyond_the_recursion`
    for q in orders if n < 1000 else orders[::2]:
        count = message_count(n, q, 11, shuffler=shuffler, clear_share=clear).shuffled
        least_hiding = 2 if clear else 3
        for m in {least_hiding, least_hiding + 1, count - 1, count}:
            compare(n, q, m, shuffler, clear)


@pytest.mark.points(0)
@pytest.mark.parametrize(
    ("n", "q", "m", "shuffler", "clear"),
    [
        (1048, (63, 1281), 150, "parallel", False),
        pytest.param(1267, (18, 22626), 2549, "parallel", True, marks=pytest.mark.slow),
    ],
)
def test_where_the_graph_without_edges_dominates(n, q, m, shuffler, clear):
    """Beyond the recursion, a hair from where nothing can be proved."""
    order = (64 + q[0]) << (q[1] - 6)
    true = compare(n, order, m, shuffler, clear)
    assert true > 10
    assert second_moment.bound((n, n), order, graph(m if clear else m - 1, shuffler, clear)).cutoff
    # and the recursion, were it run, is tight there
    longest, second_moment.LONGEST_RECURSION = second_moment.LONGEST_RECURSION, n
    try:
        share = ShareGraph(m, shuffler, clear)
        upper = second_moment.bound.__wrapped__((n, n), order, share).upper
    finally:
        second_moment.LONGEST_RECURSION = longest
    assert abs((1 - float(gmpy2.log2(upper))) / 2 - true) < 1e-6


@EVERY_SETTING
@pytest.mark.parametrize("n", [1, 3, 24])
def test_enclosures_contain_the_rationals_and_little_else(n, shuffler, clear):
    for q in (2, 3, 2**31 - 1, 2**400 + 1):
        for m in (1, 2, 3, 6):
            share = ShareGraph(m, shuffler, clear)
            check_enclosures(n, q, share)
            upper = library.enclosed(n, q, share)
            true = library.rational(n, q, share)
            if share.hiding >= 2:
                for above, value in zip(upper.divergence, true.divergence, strict=True):
                    assert mpq(above) <= value * (1 + mpq(1, 10**60))
                for above, value in zip(upper.excess, true.excess, strict=True):
                    assert mpq(above) <= value * (1 + mpq(1, 10**60))


@given(
    n=st.integers(1, 14),
    q=st.integers(2, 2**70),
    m=st.integers(1, 9),
    setting=st.sampled_from(SETTINGS),
)
def test_rationals_are_the_recursion_over_binomials(n, q, m, setting):
    shuffler, clear = setting
    found = library.rational(n, q, ShareGraph(m, shuffler, clear))
    one = math.comb

    def separated(k: int, s: int) -> mpq:
        if shuffler == "parallel":
            return mpq(one(k, s)) ** ((1 if clear else 2) - m)
        return mpq(one(k, s) ** (1 if clear else 2), one(m * k, m * s))

    c, delta = [mpq(0)], [mpq(0)]
    for k in range(1, n + 1):
        w = [mpq(s, k) * separated(k, s) for s in range(k)]
        c.append(1 - sum((w[s] * c[s] for s in range(1, k)), mpq(0)))
        terms = (w[s] * c[s] * (q * (1 + delta[k - s]) - 1) for s in range(1, k))
        delta.append(sum(terms, mpq(0)))
    assert list(found.connected) == c
    assert list(found.excess) == delta
    assert all(found.divergence[k] == delta[k] + 1 - c[k] for k in range(1, n + 1))
    with precisely():
        ball = recursion(n, q, m, shuffler, clear)
        for k in range(1, n + 1):
            assert contains(ball.divergence[k], delta[k] + 1 - c[k])
            assert contains(ball.connected[k], c[k])


def contains(ball: Any, value: mpq) -> bool:
    import flint

    exactly = flint.fmpq(int(value.numerator), int(value.denominator))
    return bool(ball.rad() <= 1e-80 * (1 + abs(ball)) and ball.overlaps(flint.arb(exactly)))


# The theorem for any number of users


@EVERY_SETTING
def test_kappa_bounds_the_sum_that_it_is_for(shuffler: str, clear: bool) -> None:
    """sum_{2<=s<=N-2} B(N, s) / B(N, 1) <= kappa - 1 for every N up to 60."""
    for hiding in range(2, 10):
        share = graph(hiding, shuffler, clear)
        f = library.rational(1, 2, share).weight
        weight = list(f)
        for k in range(2, 61):
            weight.append(weight[-1] * share.growth_exactly(k))
        for N in range(4, 61):
            first = weight[1] * weight[N - 1]
            rest = sum((weight[s] * weight[N - s] for s in range(2, N - 1)), mpq(0))
            assert rest / first <= mpq(largest_component.kappa(share)) - 1


@pytest.mark.points(0)
@EVERY_SETTING
def test_the_largest_component_bounds_every_larger_number_of_users(shuffler, clear):
    for hiding in (2, 3, 5):
        for q in (2, 7, 2**10, 2**60 - 1):
            check_largest_component(40, q, graph(hiding, shuffler, clear))


def check_largest_component(top: int, q: int, share: ShareGraph) -> None:
    """At every cutoff and size, against the rationals of all sizes from there to ``top``."""
    true = library.rational(top, q, share)
    for cutoff in (2, 3, 4, 5, 6, 7, 8):
        for n in range(max(4, -(-((cutoff + 2) ** 2) // 4)), top + 1):
            found = largest_component.at_cutoff(n, q, share, cutoff)
            assert found.divergence() >= max(true.divergence[n:])
            assert found.excess() >= max(true.excess[n:])
            best = found.divergence(connected=second_moment._connected(found, share))
            assert best >= true.divergence[n]


@EVERY_SETTING
def test_chances_of_one_component_are_bounded(shuffler: str, clear: bool) -> None:
    """The theorem's other slack would hide a wrong one: of three users 1 - B(3, 1) is too small."""
    for hiding in (2, 3, 4, 6):
        share = graph(hiding, shuffler, clear)
        true = library.rational(20, 2, share).connected
        for n in range(4, 21):
            found = largest_component.at_cutoff(n, 2, share, 2)
            for j, upper in enumerate(second_moment._connected(found, share)):
                assert mpq(upper) >= true[n - j]


@pytest.mark.points(1)
@EVERY_SETTING
def test_cutoffs_keep_to_the_theorems_condition(shuffler: str, clear: bool) -> None:
    """n >= (J + 2)^2 / 4: below it nothing is proved, whatever the numbers look like."""
    for hiding in (2, 3, 6):
        for n in (4, 8, 9, 24, 25, 80, 81, 288, 289, 1088, 1089):
            for q in (2, 2**20, 2**64):
                found = largest_component.largest_component(n, q, graph(hiding, shuffler, clear))
                assert 4 * n >= (found.cutoff + 2) ** 2


@pytest.mark.points(1)
@EVERY_SETTING
def test_the_tail_bounds_its_series(shuffler: str, clear: bool) -> None:
    """The third line as a rational: sum_{J<c<n} base^(c-1) f_(n-c+1) / (f_n (c-1)!), and c = n.

    Without a factor kappa, base is q; for c = n the probability 1 / (f_n n!) of no edges stands.
    """
    finite = 0
    for hiding in (2, 3, 4):
        share = graph(hiding, shuffler, clear)
        for n in (4, 5, 8, 13, 30):
            weight = [mpq(1)]
            for k in range(1, n + 1):
                weight.append(weight[-1] * share.growth_exactly(k))
            for base in (2, 3, 5, 8, 13, 25, 60, 200, 1000, 2**14, 2**20):
                for cutoff in (2, 3, 4):
                    if 4 * n < (cutoff + 2) ** 2:
                        continue
                    series = sum(
                        (
                            mpq(base) ** (c - 1) * weight[n - c + 1] / math.factorial(c - 1)
                            for c in range(cutoff + 1, n)
                        ),
                        mpq(base) ** (n - 1) / math.factorial(n),
                    )
                    with rounding(DOWN):
                        ratio = mpfr(weight[n] / weight[n - cutoff])
                    bound = largest_component._tail(n, base, share, cutoff, mpfr(base), ratio)
                    assert bound >= series / weight[n]
                    finite += bound < gmpy2.inf()
    assert finite > 50


# Ranges of users


@pytest.mark.slow
@EVERY_SETTING
@pytest.mark.parametrize("hiding", [1, 2, 5])
def test_a_range_is_as_weak_as_its_weakest(hiding: int, shuffler: str, clear: bool) -> None:
    """Every range up to 24 users, with the recursion cut off at 12, against rationals."""
    share = graph(hiding, shuffler, clear)
    for q in (2, 3, 2**12):
        check_ranges(q, share, 24)


def check_ranges(q: int, share: ShareGraph, top: int) -> None:
    true = library.rational(top, q, share).divergence
    longest, second_moment.LONGEST_RECURSION = second_moment.LONGEST_RECURSION, 12
    try:
        for low in range(1, top + 1):
            for high in {*range(low, min(low + 14, top) + 1), top}:
                found = second_moment.bound.__wrapped__((low, high), q, share)
                assert found.upper >= max(true[low : high + 1])
    finally:
        second_moment.LONGEST_RECURSION = longest


# Counts


@pytest.mark.points(0)
@given(
    n=st.one_of(st.integers(19, 300), st.integers(19, 10**15)),
    q=st.one_of(st.integers(2, 2**70), st.integers(1, 3000).map(lambda b: 2**b)),
    m=st.integers(4, 200),
    setting=st.sampled_from(SETTINGS),
)
@settings(max_examples=150)
@example(n=19, q=2, m=4, setting=("parallel", False))
def test_never_below_balle2020(n: int, q: int, m: int, setting: tuple[str, bool]) -> None:
    options: dict[str, Any] = {"shuffler": setting[0], "clear_share": setting[1]}
    published = security_level(n, q, m, analysis="balle2020", **options)
    assert security_level(n, q, m, **options) >= published
    if published >= 1:
        best = message_count(n, q, published, **options)
        assert best.total <= m + setting[1]


def check_enclosures(n: int, q: int, share: ShareGraph) -> None:
    """Upper bounds are, and lower bounds are, of the recursion in rationals."""
    found = library.enclosed.__wrapped__(n, q, share)
    true = library.rational(n, q, share)
    coloured = [e * f for e, f in zip(true.colourings, true.weight, strict=True)]
    for upper, value in (
        (found.connected, true.connected),
        (found.weight, true.weight),
        (found.colourings, coloured),
        (found.divergence, true.divergence),
        (found.excess, true.excess),
    ):
        assert all(mpq(a) >= b for a, b in zip(upper, value, strict=True))
    for lower, value in ((found.connected_down, true.connected), (found.weight_down, true.weight)):
        assert all(mpq(a) <= b for a, b in zip(lower, value, strict=True))


def test_probabilities_of_connected_graphs_are_rounded_up() -> None:
    """Against the exact difference, which is no number of that precision."""
    share = graph(3, "parallel", True)
    part = largest_component.largest_component(40, 2**16, share)
    bounds = second_moment._connected(part, share)
    for j, upper in enumerate(bounds):
        alone = second_moment._some_user_alone(40 - j, share)
        assert mpq(upper) > 1 - mpq(alone)
    assert len(bounds) == 2
