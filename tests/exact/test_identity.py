"""The collision identity and the bounds on total variation, against the views' own laws.

Laws of views and of components are both counted, each from its definition; sums and squares of
total variations are compared as rationals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from exact.enumeration import total_variation as variation_of
from exact.enumeration import view_law, worst_case_variation
from exact.share_graph import (
    SETTINGS,
    Group,
    Views,
    sizes_law,
    support,
    unmatched,
    views,
)

from ikos import security_level
from ikos.counts.recursion import rational, rational_split
from ikos.counts.share_graph import ShareGraph

Size = tuple[tuple[int, ...], int, int]  # the moduli of the group, n and m

SHUFFLERS = ["parallel", "single"]
each_setting = pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
each_shuffler = pytest.mark.parametrize("shuffler", SHUFFLERS)

SMALL: list[Size] = [
    ((2,), 2, 1),
    ((3,), 3, 1),
    ((3,), 2, 2),
    ((5,), 2, 3),
    ((2,), 3, 2),
    ((4,), 3, 2),
    ((2, 2), 3, 2),
    ((2,), 3, 4),
    ((3,), 3, 3),
    ((2,), 4, 3),
    ((2,), 5, 3),
    ((4,), 3, 3),
    ((3,), 4, 3),
    ((2, 2), 4, 2),
    ((2,), 6, 3),
]
LARGER: list[Size] = [
    ((5,), 4, 2),
    ((3,), 3, 5),
    ((3,), 4, 4),
    ((4,), 4, 3),
    ((2,), 6, 4),
]
SIZES = [*SMALL, *(pytest.param(*size, marks=pytest.mark.slow) for size in LARGER)]
each_size = pytest.mark.parametrize(("moduli", "n", "m"), SIZES)


# Views


@pytest.mark.parametrize(("n", "q", "m"), [(2, 2, 2), (2, 3, 3), (3, 2, 2), (3, 3, 2), (2, 4, 2)])
@each_shuffler
def test_both_enumerations_of_views_agree(n: int, q: int, m: int, shuffler: str) -> None:
    """Weights of the same multisets, and the same total variation, clear share or not."""
    shuffled = views((q,), n, m, shuffler)
    laws = {x: view_law(x, q, m, shuffler, False) for x in product(range(q), repeat=n)}
    for x, law in laws.items():
        counts = sorted(Fraction(count, shuffled.choices) for count in shuffled.law(x).values())
        assert counts == sorted(law.values())
    pairs = [(x, y) for x in laws for y in laws if sum(x) % q == sum(y) % q]
    for x, y in pairs:
        assert shuffled.variation(x, y) == variation_of(laws[x], laws[y])
    worst = max(shuffled.averaged(d, shuffled.variation) for d in shuffled.group.zero_sums(n))
    assert worst == worst_case_variation(n, q, m, shuffler, True)


@each_size
@each_shuffler
def test_views_are_uniform_when_inputs_are(
    moduli: tuple[int, ...], n: int, m: int, shuffler: str
) -> None:
    shuffled = views(moduli, n, m, shuffler)
    for total, uniform in enumerate(shuffled.uniform):
        assert sum(uniform.values()) == shuffled.q ** (m * n - 1)
        mixed = dict.fromkeys(uniform, 0)
        for x in product(range(shuffled.q), repeat=n):
            if shuffled.group.sum(x) == total:
                for view, count in shuffled.law(x).items():
                    mixed[view] += count
        assert mixed == uniform


# The identity

Collisions = Callable[[int, int, str, Group, Sequence[int]], Fraction]
QUICK = [(moduli, n, m) for moduli, n, m in SMALL if n < 5 and m < 4]


def collisions(n: int, m: int, shuffler: str, group: Group, d: Sequence[int]) -> Fraction:
    """Return 2 E[q^(C-1); d has a non-zero sum on at least one component]."""
    return 2 * sizes_law(n, m, shuffler, True).unbalanced(group, d)


def check_identity(claim: Collisions, sizes: list[Size] = QUICK) -> None:
    for moduli, n, m in sizes:
        for shuffler in SHUFFLERS:
            shuffled = views(moduli, n, m, shuffler)
            for d in shuffled.group.zero_sums(n):
                found = shuffled.averaged(d, shuffled.distance)
                assert found == claim(n, m, shuffler, shuffled.group, d)


@each_size
def test_collision_identity_holds_for_every_difference(
    moduli: tuple[int, ...], n: int, m: int
) -> None:
    """Both shufflers; groups of prime and of composite order, cyclic or not."""
    check_identity(collisions, [(moduli, n, m)])


def test_a_split_support_may_have_balanced_parts() -> None:
    """As (1, -1, 1, -1) has: the identity is one of sums, not of supports."""
    with pytest.raises(AssertionError):
        check_identity(
            lambda n, m, shuffler, group, d: (
                2 * sizes_law(n, m, shuffler, True).split(group.q, support(d))
            )
        )


@each_size
@each_shuffler
def test_identity_of_fixed_inputs_counts_matching_components(
    moduli: tuple[int, ...], n: int, m: int, shuffler: str
) -> None:
    """sum_v P_x(v) P_y(v) / U(v) = E[q^(C-1); x on the left and y on the right sum alike]."""
    shuffled, law = views(moduli, n, m, shuffler), sizes_law(n, m, shuffler, False)
    group = shuffled.group
    for x in group.multisets(n):
        for y in group.multisets(n):
            if x <= y and group.sum(x) == group.sum(y):
                assert shuffled.agreement(x, y) == law.matched(group, x, y)


# Total variation

Bound = Callable[[int, int, int, str, bool, int], Any]


def within(variation: Fraction, bound: Any) -> bool:
    """Return whether ``variation <= sqrt(bound / 2)``."""
    return 2 * variation**2 <= Fraction(bound)


def by_the_library(n: int, q: int, m: int, shuffler: str, clear: bool, k: int) -> Any:
    """Return Delta_A for k users, who are all of them if k = n."""
    graph = ShareGraph(m, shuffler, clear)
    return rational(n, q, graph).divergence[n] if k == n else rational_split(n, q, graph, k)


def by_enumeration(n: int, q: int, m: int, shuffler: str, clear: bool, k: int) -> Fraction:
    return sizes_law(n, m, shuffler, clear).split(q, k)


def one_clear_of_shuffled(n: int, q: int, m: int, shuffler: str, clear: bool, k: int) -> Any:
    """Without a clear share: as if one of the m shuffled messages were clear."""
    if clear:
        return by_the_library(n, q, m, shuffler, True, k)
    return by_the_library(n, q, m - 1, shuffler, True, k) if m > 1 else 2


def worst_variations(shuffled: Views, clear: bool) -> Iterator[tuple[int, Fraction]]:
    """Yield the total variation for all inputs that differ on k users, up to symmetry, and k."""
    group, n = shuffled.group, shuffled.n
    if clear:
        for d in group.zero_sums(n):
            yield support(d), shuffled.averaged(d, shuffled.variation)
        return
    for x in group.multisets(n):
        for y in group.multisets(n):
            if x < y and group.sum(x) == group.sum(y):
                yield unmatched(x, y), shuffled.variation(x, y)


@each_size
@pytest.mark.parametrize("bound", [by_the_library, by_enumeration, one_clear_of_shuffled])
def test_total_variation_is_bounded(bound: Bound, moduli: tuple[int, ...], n: int, m: int) -> None:
    for shuffler, clear in SETTINGS:
        shuffled = views(moduli, n, m, shuffler)
        bounds = {k: bound(n, shuffled.q, m, shuffler, clear, k) for k in range(2, n + 1)}
        for k, variation in worst_variations(shuffled, clear):
            assert within(variation, bounds[k])
            assert within(variation, bounds[n])


def test_same_formula_without_a_clear_share_is_false() -> None:
    """(n, q, m) = (2, 2, 2), one shuffler: 1/2 against sqrt(1/6) = 0.408."""
    assert worst_case_variation(2, 2, 2, "single", False) == Fraction(1, 2)
    assert sizes_law(2, 2, "single", True).divergence(2) == Fraction(1, 3)
    assert not within(Fraction(1, 2), Fraction(1, 3))


@each_setting
@each_size
def test_total_variation_is_within_the_exact_level(
    moduli: tuple[int, ...], n: int, m: int, shuffler: str, clear: bool
) -> None:
    shuffled = views(moduli, n, m, shuffler)
    options: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
    sigma = security_level(n, shuffled.q, m, analysis="second_moment", **options)
    worst = max(variation for _, variation in worst_variations(shuffled, clear))
    assert worst <= Fraction(2.0**-sigma)
