"""Layouts of vectors: minimal, as secure as they say, and the product bounds by enumeration."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from exact.share_graph import SETTINGS, Views, support, unmatched, views
from gmpy2 import mpfr
from hypothesis import given
from hypothesis import strategies as st

from ikos import message_count, private_message_count, security_level
from ikos.counts import private_proved, private_vector_layouts, vector_layouts
from ikos.counts.hockey_stick import Divergences
from ikos.counts.recursion import rational, rational_split
from ikos.counts.share_graph import ShareGraph
from ikos.counts.vectors import level_of_sums

each_setting = pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)

# The product bounds, for two coordinates


Laws = list[tuple[Counter[int], Counter[int], int]]  # of the views of x and y, and a weight


def pairs(shuffled: Views, clear: bool) -> Iterator[tuple[int, Laws]]:
    """Yield on how many users two inputs differ, and the laws to average over."""
    group, n = shuffled.group, shuffled.n
    if not clear:
        for x, y in product(group.multisets(n), repeat=2):
            if group.sum(x) == group.sum(y):
                yield unmatched(x, y), [(shuffled.law(x), shuffled.law(y), 1)]
        return
    for d in [(0,) * n, *group.zero_sums(n)]:
        weights: Counter[tuple[Any, Any]] = Counter()
        for x in product(range(group.q), repeat=n):
            y = tuple(group.add(a, b) for a, b in zip(x, d, strict=True))
            weights[tuple(sorted(x)), tuple(sorted(y))] += 1
        laws = [(shuffled.law(x), shuffled.law(y), count) for (x, y), count in weights.items()]
        yield support(d), laws


def joint(first: Laws, second: Laws, c: Fraction, total: int) -> Fraction:
    """Return the divergence of order 1 + c between the views of two coordinates together."""
    a, b = c.denominator, c.denominator + c.numerator
    found = weights = 0
    for (p1, q1, w1), (p2, q2, w2) in product(first, second):
        gain = 0
        for (v1, n1), (v2, n2) in product(p1.items(), p2.items()):
            gain += max(0, a * n1 * n2 - b * q1[v1] * q2[v2])
        found += gain * w1 * w2
        weights += w1 * w2
    return Fraction(found, a * total**2 * weights)


@each_setting
@pytest.mark.parametrize(("q", "n", "m"), [(2, 2, 2), (2, 2, 4), (3, 2, 2), (2, 3, 2), (2, 3, 3)])
def test_two_sums_are_within_the_product_bounds(
    shuffler: str, clear: bool, q: int, n: int, m: int
) -> None:
    shuffled, graph = views((q,), n, m, shuffler), ShareGraph(m, shuffler, clear)
    moments = rational(n, q, graph)
    D, x = Fraction(moments.divergence[n]), Fraction(moments.excess[n])
    split = {k: Fraction(rational_split(n, q, graph, k)) for k in range(2, n + 1)}
    split |= {0: Fraction(0), 1: Fraction(0)}
    inputs = list(pairs(shuffled, clear))
    for (k, first), (j, second) in product(inputs, repeat=2):
        variation = joint(first, second, Fraction(0), shuffled.choices)
        assert variation**2 <= D * (1 + D)  # 2 D (1 + D) / 2
        one, two = split[k], split[j]
        # (sqrt(one) + sqrt(two))^2 <= 2 (one + two); what the library takes is 4 max(one, two)
        difference = (one + two if clear else 2 * (one + two)) * (1 + x)
        assert 2 * variation**2 <= difference
        for c in (Fraction(1, 4), Fraction(1)):
            a, b = difference / (2 * c), c * ((1 + x) ** 2 - 1) / 4
            eta = joint(first, second, c, shuffled.choices)
            assert eta <= a + b or (eta - a - b) ** 2 <= 4 * a * b


def exactly(value: mpfr) -> Fraction:
    return Fraction(*map(int, value.as_integer_ratio()))


def test_second_moments_of_sums_are_rounded_up() -> None:
    one = Divergences(mpfr("1e-9"), mpfr("0.001"))
    for clear, times in ((True, 5), (False, 25)):
        found = one.of_sums(5, ShareGraph(4, "parallel", clear))
        x = exactly(one.excess)
        assert exactly(found.difference) >= times * exactly(one.difference) * (1 + x) ** 4
        assert exactly(found.excess) >= (1 + x) ** 5 - 1
        assert float(found.difference) == pytest.approx(times * 1e-9 * 1.001**4)
        assert float(found.excess) == pytest.approx(1.001**5 - 1)
    assert one.of_sums(1, ShareGraph(4, "parallel", False)) is one


# Levels


@given(sigma=st.floats(0, 1000), d=st.integers(1, 10**6))
def test_the_level_of_sums_is_the_better_of_two_bounds(sigma: float, d: int) -> None:
    union, better = (level_of_sums(sigma, d, analysis=a) for a in ("balle2020", "exact"))
    assert 0 <= union <= better <= sigma
    assert union == pytest.approx(max(0.0, sigma - math.log2(d)), abs=1e-9)
    if d > 1 and sigma > 20 + math.log2(d):
        assert better == pytest.approx(sigma - math.log2(d) / 2, abs=1e-5)


@each_setting
@pytest.mark.parametrize(("n", "q", "sigma", "d"), [(50, 2**16, 40, 10), (10**5, 5, 25, 1000)])
def test_layouts_are_minimal(
    shuffler: str, clear: bool, n: int, q: int, sigma: int, d: int
) -> None:
    how: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
    group, apart = vector_layouts(n, q, sigma, d, **how)
    assert (group.name, group.sums, apart.name, apart.sums) == ("one group", 1, "separate sums", d)
    assert group.count == message_count(n, q**d, sigma, **how)
    bits = (q - 1).bit_length()
    assert group.bits_per_user == group.count.total * d * bits
    assert apart.messages_per_user == d * apart.count.total
    assert apart.bits_per_user == d * apart.count.total * bits

    def level(m: int) -> float:
        return level_of_sums(security_level(n, q, m, **how), d, analysis="exact")

    enough = next(m for m in range(1, 200) if level(m) >= sigma)
    assert apart.count.shuffled == enough
    assert apart.sigma == level(enough) >= sigma
    union = message_count(n, q, sigma + Fraction(math.log2(d) + 1e-9), **how)
    assert apart.count.total <= union.total


def test_one_coordinate_is_a_scalar() -> None:
    (only,) = vector_layouts(1000, 2**32, 80, 1)
    assert only.count == message_count(1000, 2**32, 80)
    (private,) = private_vector_layouts(1000, 2**16, 1, 1e-9, 32, 1)
    assert private.count == private_message_count(1000, 2**16, 1, 1e-9, 32)


def test_published_levels_take_the_union_bound() -> None:
    _, apart = vector_layouts(1000, 2**32, 40, 64, analysis="balle2020")
    assert apart.count == message_count(1000, 2**32, 46, analysis="balle2020")
    assert apart.sigma == apart.count.sigma - 6


def test_honest_users_and_shufflers() -> None:
    plain = vector_layouts(500, 2**16, 40, 8)
    robust = vector_layouts(1000, 2**16, 40, 8, min_honest=500, corrupt_shufflers=2)
    for layout, base in zip(robust, plain, strict=True):
        assert layout.count.shuffled == base.count.shuffled + 2
        assert layout.sigma <= base.sigma


# Privacy


@each_setting
@pytest.mark.parametrize("sensitivity", [None, 2])
def test_private_layouts_are_minimal(shuffler: str, clear: bool, sensitivity: int | None) -> None:
    n, q, epsilon, delta, p, d = 2000, 2**14, 1, 1e-7, 1, 12
    how: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
    group, apart, composed = private_vector_layouts(
        n, q, epsilon, delta, p, d, sensitivity=sensitivity, **how
    )
    moved = d * p if sensitivity is None else sensitivity

    def least(delta_of: Any, goal: float) -> int:
        return next(m for m in range(1, 100) if delta_of(m).delta <= goal)

    whole = least(
        lambda m: private_proved(
            n, q**d, m, epsilon, delta, p, dimension=d, sensitivity=moved, **how
        ),
        delta,
    )
    assert group.count.shuffled == whole
    each = least(
        lambda m: private_proved(n, q, m, epsilon, delta, p, sums=d, sensitivity=moved, **how),
        delta,
    )
    assert apart.count.shuffled == each
    part = private_message_count(n, q, Fraction(epsilon, d), Fraction(delta) / d, p, **how)
    assert composed.count == part
    for layout in (group, apart, composed):
        assert layout.delta is not None
        assert layout.rate is not None
        assert layout.delta <= delta
        assert layout.epsilon == epsilon
    for layout in (group, apart):
        assert layout.count.noise_epsilon is not None
        assert layout.rate == Fraction(layout.count.noise_epsilon) / moved
        assert 0.99 * epsilon <= layout.count.noise_epsilon <= epsilon
    assert composed.rate is not None
    assert 0.99 * epsilon / (d * p) <= composed.rate <= Fraction(epsilon, d * p)


@pytest.mark.parametrize("analysis", ["balle2020", "ishai2006"])
def test_published_analyses_pay_by_their_level(analysis: str) -> None:
    how: dict[str, Any] = {"analysis": analysis}
    if analysis == "ishai2006":
        how |= {"shuffler": "single", "clear_share": False}
    for layout in private_vector_layouts(1000, 2**12, 1, 1e-6, 1, 16, **how):
        assert layout.delta is not None
        assert layout.delta <= 1e-6
        if layout.name != "separate sums, composed":
            assert (1 + math.e) * 2**-layout.sigma <= 1.0001e-6
        assert layout.count.analysis == analysis


def test_keywords_of_private_proved_leave_other_calls_as_they_were() -> None:
    same = private_proved(1000, 2**48, 8, 1, 1e-9, 32, dimension=3)
    assert private_proved(1000, 2**48, 8, 1, 1e-9, 32, dimension=3, sensitivity=96) == same
    less = private_proved(1000, 2**48, 8, 1, 1e-9, 32, dimension=3, sensitivity=5)
    assert less.delta is not None
    assert same.delta is not None
    assert less.delta <= same.delta


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"dimension": 2.0}, TypeError, "dimension must be an integer, got float 2.0"),
        ({"sensitivity": 0}, ValueError, "sensitivity must be at least 1, got 0"),
        ({"sensitivity": 161}, ValueError, "sensitivity must be at most 160, got 161"),
        ({"epsilon": 0}, ValueError, "epsilon must be at least 1e-100, got 0"),
        ({"delta": 1}, ValueError, "delta must be less than 1, got 1"),
        ({"precision": 0}, ValueError, "precision must be at least 1, got 0"),
        ({"corrupt_shufflers": -1}, ValueError, "corrupt_shufflers must be at least 0, got -1"),
        ({"n": 10, "analysis": "balle2020"}, ValueError, "balle2020 needs n >= 19"),
    ],
)
def test_bad_arguments_are_named(
    arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    good: dict[str, Any] = {
        "n": 1000,
        "q": 2**16,
        "epsilon": 1,
        "delta": 1e-6,
        "precision": 32,
        "dimension": 5,
    }
    with pytest.raises(error, match=said):
        private_vector_layouts(**{**good, **arguments})
