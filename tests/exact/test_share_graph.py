"""The components of the share graph: the recursion against enumeration, and bounds for many users.

All comparisons are between rationals. What the bounds say of every number of users is derived in
the docstrings from the inequalities that are tested.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
from exact.share_graph import (
    SETTINGS,
    all_graphs,
    component_counts,
    sizes_law,
    weight,
)
from gmpy2 import mpq

from ikos import security_level
from ikos.counts.recursion import rational, rational_split
from ikos.counts.share_graph import ShareGraph

each_setting = pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
EULER = mpq(2718281828, 10**9)  # below e

# The enumerations themselves


@each_setting
@pytest.mark.parametrize(("n", "m"), [(1, 3), (2, 4), (3, 2)])
def test_sizes_and_names_are_what_all_permutations_give(
    n: int, m: int, shuffler: str, clear: bool
) -> None:
    """Every permutation drawn as a graph: sizes, and every set of users split as often."""
    graphs = all_graphs(n, m, shuffler, clear)
    law = sizes_law(n, m, shuffler, clear)
    sizes: Counter[tuple[int, ...]] = Counter()
    for graph, count in graphs.items():
        sizes[tuple(sorted(Counter(graph[:n]).values()))] += count
    assert sizes == law.counts
    total = sum(graphs.values())
    for k in range(1, n + 1):
        for A in combinations(range(n), k):
            copies = [A] if clear else [A, tuple(n + i for i in A)]
            weighed = sum(
                count * 3 ** (len(set(graph)) - 1)
                for graph, count in graphs.items()
                if all(len({graph[i] for i in copy}) > 1 for copy in copies)
            )
            assert Fraction(weighed, total) == law.split(3, k)


@pytest.mark.points(1)
@each_setting
@pytest.mark.parametrize("m", [1, 2, 5])
def test_the_exponential_formula_counts_what_the_enumeration_counts(
    m: int, shuffler: str, clear: bool
) -> None:
    chance = component_counts(7, m, shuffler, clear)
    for n in range(1, 8):
        law = sizes_law(n, m, shuffler, clear)
        assert [law.count_is(c) for c in range(n + 1)] == chance[n]


# The recursion


@pytest.mark.slow
@each_setting
@pytest.mark.parametrize("q", [2, 3, 2**64])
def test_the_recursion_gives_the_enumerated_moments(q: int, shuffler: str, clear: bool) -> None:
    for m in range(1, 6):
        moments = rational(6, q, ShareGraph(m, shuffler, clear))
        for n in range(1, 7):
            law = sizes_law(n, m, shuffler, clear)
            assert moments.connected[n] == law.count_is(1)
            assert moments.divergence[n] == law.divergence(q)
            assert moments.excess[n] == law.excess(q)


@each_setting
@pytest.mark.parametrize("n", [1, 3, 6, 8])
def test_the_library_splits_as_the_enumeration_does(n: int, shuffler: str, clear: bool) -> None:
    for m in range(1, 6 if n < 7 else 3):
        law = sizes_law(n, m, shuffler, clear)
        for q in (2, 5, 2**64):
            for k in range(1, n + 1):
                found = rational_split(n, q, ShareGraph(m, shuffler, clear), k)
                assert found == law.split(q, k)
            assert law.split(q, n) == law.divergence(q)
            assert law.split(q, 1) == 0


@each_setting
@pytest.mark.parametrize("m", [1, 3, 5])
def test_the_exact_level_is_just_below_the_enumerated_one(
    m: int, shuffler: str, clear: bool
) -> None:
    for n in range(1, 7):
        for q in (2, 3, 2**64):
            options: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
            sigma = security_level(n, q, m, analysis="second_moment", **options)
            divergence = sizes_law(n, m, shuffler, clear).divergence(q)
            if divergence == 0:
                assert n == 1
                assert sigma == math.inf
            elif divergence >= 2:
                assert sigma == 0
            else:
                assert sigma >= 0
                assert divergence <= 2 * Fraction(2.0**-sigma) ** 2 * (1 + Fraction(1, 10**14))
                assert divergence >= 2 * Fraction(2.0**-sigma) ** 2 * (1 - Fraction(1, 10**12))


@pytest.mark.parametrize(
    ("n", "m", "q", "shuffler", "clear", "value"),
    [
        (10, 4, 2**8, "parallel", True, 0.314379),
        (30, 4, 2**8, "parallel", True, 0.00949695),
        (3, 3, 3, "single", True, 0.07262),
        (4, 2, 2, "single", False, 0.82857),
        (10, 3, 2**8, "parallel", True, 390.9),
    ],
)
def test_excess_has_its_stated_values(
    n: int, m: int, q: int, shuffler: str, clear: bool, value: float
) -> None:
    chance = component_counts(n, m, shuffler, clear)[n]
    excess = sum(chance[c] * q ** (c - 1) for c in range(1, n + 1)) - 1
    assert float(excess) == pytest.approx(value, rel=5e-4 if value > 100 else 2e-5)
    assert rational(n, q, ShareGraph(m, shuffler, clear)).excess[n] == excess


@pytest.mark.parametrize("n", [2, 4, 7])
def test_one_more_shuffled_message_is_as_good_as_a_clear_share(n: int) -> None:
    """For parallel shufflers the graphs agree in law, for a single one it is better."""
    for m in range(1, 5):
        for q in (2, 3, 2**64):
            clear, shuffled = (sizes_law(n, m + 1 - c, "parallel", bool(c)) for c in (1, 0))
            assert clear.counts.keys() == shuffled.counts.keys()
            assert clear.divergence(q) == shuffled.divergence(q)
            clear, shuffled = (sizes_law(n, m + 1 - c, "single", bool(c)) for c in (1, 0))
            assert shuffled.divergence(q) <= clear.divergence(q)
            for k in range(1, n + 1):
                assert shuffled.split(q, k) <= clear.split(q, k)


# Bounds for many users


def hiding(m: int, clear: bool) -> int:
    return m if clear else m - 1


def kappa(h: int) -> mpq:
    return mpq(21, 10) if h == 2 else 1 + mpq(2, 3) ** (h - 3) / 2


Ratio = Callable[[int], mpq]
Hiding = Callable[[int, bool], int]


def bounded_settings(least: int, most: int) -> list[tuple[str, bool, int]]:
    """Return the settings with a number of shuffled messages of which ``least..most`` hide."""
    return [
        (shuffler, clear, h + (not clear))
        for shuffler, clear in SETTINGS
        for h in range(least, most + 1)
    ]


def weights(top: int, m: int, shuffler: str, clear: bool) -> list[mpq]:
    return [weight(k, m, shuffler, clear) for k in range(top + 1)]


def compositions(f: list[mpq]) -> list[list[mpq]]:
    """Return, for each c and n, the sum over s_1 + .. + s_c = n of f_(s_1) .. f_(s_c)."""
    top = len(f) - 1
    rows = [[mpq(1)] + [mpq(0)] * top]
    for _ in range(top):
        last = rows[-1]
        rows.append(
            [sum((f[s] * last[n - s] for s in range(1, n + 1)), mpq(0)) for n in range(top + 1)]
        )
    return rows


def check_compositions_are_bounded(
    ratio: Ratio, hiding: Hiding, top: int = 32, most: int = 9
) -> None:
    for shuffler, clear, m in bounded_settings(2, most):
        f, factor = weights(top, m, shuffler, clear), ratio(hiding(m, clear))
        rows = compositions(f)
        for c in range(1, top + 1):
            constant = c * (factor * f[1]) ** (c - 1)
            for n in range(c, top + 1):
                assert rows[c][n] <= constant * f[n - c + 1]


@pytest.mark.slow
def test_compositions_of_more_users_are_bounded() -> None:
    check_compositions_are_bounded(kappa, hiding, top=70, most=12)


@pytest.mark.parametrize(
    ("ratio", "hides"),
    [
        (lambda h: mpq(1), hiding),
        (lambda h: min(kappa(h), mpq(3, 2)), hiding),
        (lambda h: 1 + mpq(2, 3) ** h / 2, hiding),
        (kappa, lambda m, clear: m),
    ],
    ids=["no constant", "3/2 for two messages", "too fast", "same m without a clear share"],
)
def test_too_small_constants_are_caught(ratio: Ratio, hides: Hiding) -> None:
    with pytest.raises(AssertionError):
        check_compositions_are_bounded(ratio, hides)


def test_half_sums_are_bounded_by_their_first_term() -> None:
    """Why the bound on compositions holds for every number of users.

    Among the compositions with a largest part first, at least 1/c of all by weight, merge the
    second part into the first, all but 1 of it: the sum over s_2 <= s_1 of f_(s_1) f_(s_2), given
    s_1 + s_2 = N, is at most kappa f_1 f_(N-1), and N - 1 >= s_1 is still a largest part. The
    half sum is a matter of f_s f_(N-s) / (f_1 f_(N-1)) = (N / C(N, s))^(h-1) for parallel
    shufflers, at most 2/3 to the h - 1 for 2 <= s <= N/2; so each h follows from h = 3.
    """
    for shuffler, clear, m in bounded_settings(2, 8):
        h, f = hiding(m, clear), weights(80, m, shuffler, clear)
        for N in range(2, 81):
            half = sum((f[s] * f[N - s] for s in range(1, N // 2 + 1)), mpq(0))
            assert half <= kappa(h) * f[1] * f[N - 1]
    # Where the terms s = 2 and the others are bounded apart, for all N from 7 on
    for N in range(7, 200):
        for h, margin in ((2, mpq(11, 10)), (3, mpq(1, 2))):
            second = mpq(2, N - 1) ** (h - 1)
            others = N * mpq(6, (N - 1) * (N - 2)) ** (h - 1) / 2
            assert second + others <= margin


def test_a_single_shuffler_is_bounded_by_parallel_ones() -> None:
    """C(mN, ms) / C(N, s)^m rises up to s = N/2, so the single ratio is at most the parallel.

    From s to s + 1 it grows by the product over i < m of (1 - i / (m (N - s))) over that of
    (1 - i / (m (s + 1))), which is at least 1 if N - s >= s + 1.
    """
    for m in range(1, 7):
        for N in range(2, 60):
            rising = [mpq(math.comb(m * N, m * s), math.comb(N, s) ** m) for s in range(N // 2 + 1)]
            assert rising == sorted(rising)


@pytest.mark.slow
def test_numbers_of_components_are_bounded_by_compositions() -> None:
    """P[C = c] <= Q_c(n) / c!: every block a component, rather than connected."""
    top = 24
    for shuffler, clear, m in bounded_settings(1, 6):
        f = weights(top, m, shuffler, clear)
        rows, chance = compositions(f), component_counts(top, m, shuffler, clear)
        for n in range(1, top + 1):
            for c in range(1, n + 1):
                assert chance[n][c] <= rows[c][n] / (f[n] * math.factorial(c))


def largest_component_bound(
    n: int, J: int, q: int, f: list[mpq], factor: mpq, colourings: list[mpq]
) -> mpq:
    """Bound E[q^(C-1); C >= 2] by the j users outside of a largest component.

    Fewer than J: all their graphs. J or more, in at most J components: f_(n-j) f_(j-c+1) is the
    largest at j = J, since f is log-convex and a largest of c + 1 components has n / (c + 1)
    users or more, which is at least J - c + 1 if n >= (J + 2)^2 / 4. More components: a tail.
    """

    def extreme(k: int, c: int) -> mpq:
        return f[k - c + 1] * f[1] ** (c - 1) / f[k]

    def union(s: int) -> mpq:
        return f[s] * f[n - s] / f[n]

    few = sum((union(j) * colourings[j] for j in range(1, J)), mpq(0))
    middle = sum(
        (q**c * factor ** (c - 1) * extreme(J, c) / math.factorial(c - 1) for c in range(1, J + 1)),
        mpq(0),
    )
    tail = sum(
        (
            (q * factor) ** (c - 1) * extreme(n, c) / math.factorial(c - 1)
            for c in range(J + 1, n + 1)
        ),
        mpq(0),
    )
    return few + n * union(J) * middle + tail


@pytest.mark.slow
@pytest.mark.parametrize(("shuffler", "clear", "m"), bounded_settings(2, 6))
def test_the_largest_component_decides(shuffler: str, clear: bool, m: int) -> None:
    top = 50
    f, factor = weights(top, m, shuffler, clear), kappa(hiding(m, clear))
    chance = component_counts(top, m, shuffler, clear)
    for q in (2, 3, 2**8, 2**64):
        colourings = [sum(p * q**c for c, p in enumerate(row)) for row in chance]
        for n in range(4, top + 1):
            exact = sum(chance[n][c] * q ** (c - 1) for c in range(2, n + 1))
            for J in range(2, math.isqrt(4 * n) - 1):
                assert 4 * n >= (J + 2) ** 2
                assert exact <= largest_component_bound(n, J, q, f, factor, colourings)


Tail = Callable[[int, int, int], mpq]


def lemma_c5(n: int, c: int, h: int) -> mpq:
    return mpq(3, 2) ** (c - 1) / math.factorial(c) * (EULER / n) ** ((h - 1) * (c - 1))


def check_many_components_are_unlikely(
    tail: Tail, hiding: Hiding, top: int = 36, most: int = 8
) -> None:
    for shuffler, clear, m in bounded_settings(3, most):
        chance = component_counts(top, m, shuffler, clear)
        for n in range(2, top + 1):
            for c in range(1, n + 1):
                assert chance[n][c] <= tail(n, c, hiding(m, clear))


@pytest.mark.slow
def test_lemma_c5_holds_for_more_users() -> None:
    check_many_components_are_unlikely(lemma_c5, hiding, top=70, most=10)


@pytest.mark.parametrize(
    ("tail", "hides"),
    [
        (lambda n, c, h: lemma_c5(n, c, h) / EULER ** ((h - 1) * (c - 1)), hiding),
        (lambda n, c, h: lemma_c5(n, c, h) * mpq(1, n) ** (c - 1), hiding),
        (lemma_c5, lambda m, clear: m),
    ],
    ids=["no e", "one more message", "same m without a clear share"],
)
def test_too_small_tails_are_caught(tail: Tail, hides: Hiding) -> None:
    with pytest.raises(AssertionError):
        check_many_components_are_unlikely(tail, hides)


@pytest.mark.parametrize(("shuffler", "clear", "m"), bounded_settings(3, 5))
def test_two_colours_and_the_tail_bound_the_excess(shuffler: str, clear: bool, m: int) -> None:
    """E q^C counts colourings of the components: one colour, two, or more and so C >= 3."""
    top, h = 30, hiding(m, clear)
    f, chance = weights(top, m, shuffler, clear), component_counts(top, m, shuffler, clear)
    for q in (2, 3, 2**8):
        for n in range(2, top + 1):
            two = mpq(q - 1, 2) * sum(f[s] * f[n - s] / f[n] for s in range(1, n))
            excess = sum(chance[n][c] * q ** (c - 1) for c in range(1, n + 1)) - 1
            three = sum(chance[n][c] * q ** (c - 1) for c in range(3, n + 1))
            assert two <= excess <= two + three
            base = mpq(3, 2) * q * (EULER / n) ** (h - 1)
            assert three <= sum(base ** (c - 1) / math.factorial(c) for c in range(3, n + 1))


@each_setting
@pytest.mark.parametrize("n", [2, 4, 7])
def test_two_colours_and_the_tail_bound_the_split(n: int, shuffler: str, clear: bool) -> None:
    """Colourings that are not constant on A, on the left and on the right if there are two."""
    for m in range(1, 4):
        law, f = sizes_law(n, m, shuffler, clear), weights(n, m, shuffler, clear)
        for q in (2, 3, 2**8):
            three = law.mean(lambda sizes, q=q: q ** (len(sizes) - 1) * (len(sizes) > 2))
            for k in range(1, n + 1):
                two = mpq(0)
                for s in range(1, n):
                    whole = math.comb(n - k, s - k) if s >= k else 0
                    apart = 1 - mpq(whole + math.comb(n - k, s), math.comb(n, s))
                    assert apart <= min(1, mpq(k * min(s, n - s), n))
                    two += f[s] * f[n - s] / f[n] * apart ** (1 if clear else 2)
                assert law.split(q, k) <= mpq(q, 2) * two + mpq(q, q - 1) * three
