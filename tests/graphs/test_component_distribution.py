"""The law of the number of components: enumerations, generating functions and closed forms.

The exact law is compared as rationals with the enumeration of all permutations, the enclosures
with rationals, and floating point with both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
import pytest
from exact.share_graph import SETTINGS, component_counts, sizes_law
from gmpy2 import mpfr, mpq

from ikos.counts.recursion import enclosed
from ikos.counts.share_graph import ShareGraph
from ikos.graphs import (
    Enclosure,
    component_moment,
    component_pmf,
    enclosed_law,
    exact_component_law,
)
from ikos.graphs.component_distribution import (
    MAX_CYCLE_USERS,
    MAX_LAW_COMPONENTS,
    MAX_LAW_USERS,
    MAX_RATIONAL_USERS,
    Moment,
    _by_largest,
    cutoff,
    laws,
    overlooked,
)

TIGHT = mpq(1, 2**200)

# The least value that component_pmf promises to know, and how well
LEAST, RELATIVE = 1e-290, 1e-9

models = pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)

CYCLES = [("parallel", True, 1), ("single", True, 1), ("parallel", False, 2), ("single", False, 2)]
"""The models in which every vertex has two edges, and differences lose a digit with each user."""


def check_encloses(found: Enclosure, true: mpq) -> None:
    """Strictly: exact rationals are compared. No wider than 2^-200 of the value either."""
    assert gmpy2.is_finite(found.low)
    assert gmpy2.is_finite(found.high)
    low, high = mpq(found.low), mpq(found.high)
    assert low <= true <= high
    assert high - low <= TIGHT * true


def check_close(pmf: Any, true: Iterable[Any]) -> None:
    """Assert what component_pmf promises of each entry."""
    for p, exactly in zip(pmf.tolist(), true, strict=True):
        if exactly > LEAST:
            assert abs(mpq(p) - mpq(exactly)) <= RELATIVE * mpq(exactly)
        else:
            assert 0 <= p <= 2 * LEAST


# Enumerations


@models
@pytest.mark.parametrize("m", [1, 2, 5])
def test_rationals_are_the_generating_function_and_add_up_to_one(
    m: int, shuffler: str, clear: bool
) -> None:
    true = component_counts(30, m, shuffler, clear)
    for n in (1, 2, 3, 7, 16, 30):
        law = exact_component_law(n, m, shuffler=shuffler, clear_share=clear)
        assert len(law) == n
        assert sum(law) == 1
        assert list(map(mpq, law)) == true[n][1:]


@pytest.mark.points(0)
def test_rationals_reach_their_largest_size() -> None:
    law = exact_component_law(MAX_RATIONAL_USERS, 2, clear_share=False)
    assert law == tuple(
        Fraction(int(p.numerator), int(p.denominator)) for p in cycle_law(MAX_RATIONAL_USERS, 1)
    )


# Closed forms


def cycle_law(n: int, step: int) -> list[mpq]:
    """Return the law of C where every vertex has two edges: n steps, each of which may close one.

    Follow the edges, naming none in advance. With r users left the walk comes back to where it
    began with probability 1/r, or 1/(2r - 1) if all free ends are alike.
    """
    row = [mpq(1)]
    for j in range(n):
        close = mpq(1, 1 + step * j)
        row = [
            (row[c] * (1 - close) if c < len(row) else 0) + (row[c - 1] * close if c else 0)
            for c in range(len(row) + 1)
        ]
    return row[1:]


@models
@pytest.mark.parametrize(("n", "most"), [(30, 30), (500, 3)])
def test_enclosures_of_pairs_are_tight(shuffler: str, clear: bool, n: int, most: int) -> None:
    """One message and no clear share: C = n for certain, also where differences lose digits."""
    if clear:
        return
    for c, found in enumerate(enclosed_law(n, 1, most, shuffler=shuffler, clear_share=False), 1):
        assert found.low <= int(c == n) <= found.high
        assert mpq(found.high) - mpq(found.low) <= TIGHT
    moment = component_moment(n, 1, 2**64, shuffler=shuffler, clear_share=False)
    true = mpq(2) ** (64 * (n - 1))
    assert true - 1 <= mpq(moment.excess) <= (true - 1) * (1 + TIGHT)
    assert true <= mpq(moment.divergence) <= true * (1 + TIGHT)


# Enclosures


@models
@pytest.mark.parametrize("m", [1, 2, 3])
def test_enclosures_enclose_the_rationals(m: int, shuffler: str, clear: bool) -> None:
    """For every number of users up to 30, and every c."""
    true = component_counts(30, m, shuffler, clear)
    columns = list(laws(30, ShareGraph(m, shuffler, clear), 30))
    assert len(columns) == 30
    for c, column in enumerate(columns, 1):
        assert len(column) == 31
        for k, found in enumerate(column):
            assert (found is None) == (k < c)
            if found is None:
                continue
            if true[k][c] == 0:  # only without any hiding message
                assert found.low <= 0 <= found.high <= mpfr(2) ** -200
            else:
                check_encloses(found, true[k][c])
    for most in (1, 7, 30):
        law = enclosed_law(30, m, most, shuffler=shuffler, clear_share=clear)
        for found, p in zip(law, true[30][1:], strict=False):
            check_encloses(found, p)


@models
@pytest.mark.parametrize(("n", "hiding", "cut"), [(30, 2, 6), (30, 3, 3), (21, 2, 4)])
def test_the_largest_component_and_the_others_make_the_law(
    n: int, hiding: int, cut: int, shuffler: str, clear: bool
) -> None:
    """Cut off so early that all rests can be seen: as rationals, and as they are enclosed."""
    m = hiding if clear else hiding + 1
    graph = ShareGraph(m, shuffler, clear)
    true = component_counts(n, m, shuffler, clear)
    f = [mpq(1)]
    for k in range(1, n + 1):
        f.append(f[-1] * graph.growth_exactly(k))

    def divisions(k: int, j: int) -> mpq:
        return f[j] * f[k - j] / f[k]

    for k in range(3 * cut, n + 1):
        known = sum((divisions(k, j) * true[k - j][1] for j in range(1, cut)), mpq(0))
        assert 0 < 1 - true[k][1] - known <= mpq(k, 2) * divisions(k, cut)
    rests = [mpq(0)] * (cut + 1)
    for c in range(2, cut + 1):
        known = sum(divisions(n, j) * true[n - j][1] * true[j][c - 1] for j in range(c - 1, cut))
        rests[c] = true[n][c] - known
        most = overlooked(n, c, mpfr(f[cut - c + 2], 256), mpfr(f[n - cut] / f[n], 256))
        assert 0 < rests[c] <= mpq(most)
    for c, found in enumerate(_by_largest(n, graph, cut, cut), 1):
        assert mpq(found.low) <= true[n][c] <= mpq(found.high)
        assert mpq(found.low) <= true[n][c] - rests[c]


@pytest.mark.points(1)
@models
@pytest.mark.parametrize(
    ("n", "hiding", "most"),
    [
        (100, 9, 5),
        (300, 3, 4),
        pytest.param(600, 2, 12, marks=pytest.mark.slow),
    ],
)
def test_the_largest_component_gives_what_the_recursion_gives(
    n: int, hiding: int, most: int, shuffler: str, clear: bool
) -> None:
    graph = ShareGraph(hiding if clear else hiding + 1, shuffler, clear)
    assert cutoff(n, graph, most) is not None
    law = enclosed_law(n, graph.m, most, shuffler=shuffler, clear_share=clear)
    for found, column in zip(law, laws(n, graph, most), strict=True):
        slowly = column[n]
        assert slowly is not None
        assert max(found.low, slowly.low) <= min(found.high, slowly.high)
        assert mpq(found.high) - mpq(found.low) <= TIGHT * mpq(found.low)


@models
@pytest.mark.parametrize(
    ("n", "most"), [(MAX_LAW_USERS + 1, 12), (10**9, 12), (10**100, 2),
                    pytest.param(MAX_LAW_USERS + 1, MAX_LAW_COMPONENTS, marks=pytest.mark.slow)],
)  # fmt: skip
def test_enclosures_of_many_users_are_tight(n: int, most: int, shuffler: str, clear: bool) -> None:
    """Two hiding messages are the hardest case: n exp(-O(n)) falls faster with more."""
    m = 2 if clear else 3
    law = enclosed_law(n, m, most, shuffler=shuffler, clear_share=clear)
    assert all(mpq(e.high) - mpq(e.low) <= TIGHT * mpq(e.low) for e in law)
    growth = ShareGraph(m, shuffler, clear).growth_exactly(n)
    assert float(law[1].high * growth) == pytest.approx(1, rel=3 / n)


@models
@pytest.mark.parametrize("m", [1, 2, 3])
def test_chances_of_one_component_are_enclosed_before_anything_is_made_of_them(
    m: int, shuffler: str, clear: bool
) -> None:
    """Sums of products are rounded outwards so often that they hide a wrong side here."""
    true = component_counts(40, m, shuffler, clear)
    found = enclosed(40, 2, ShareGraph(m, shuffler, clear))
    for k in range(1, 41):
        assert mpq(found.connected_down[k]) <= true[k][1] <= mpq(found.connected[k])


def test_an_enclosure_is_shown_by_its_upper_end() -> None:
    low, high = mpfr("0.25"), mpfr("0.2500001")
    found = Enclosure(low, high)
    assert float(found) == float(high)
    assert str(found) == "0.25"
    assert str(enclosed_law(100, 10, 100)[-1]).endswith("e-1580")


# Floating point


@models
@pytest.mark.parametrize("m", [1, 2, 3, 30])
def test_floats_are_as_close_to_the_rationals_as_promised(
    m: int, shuffler: str, clear: bool
) -> None:
    true = component_counts(30, m, shuffler, clear)
    for n in (1, 2, 3, 5, 8, 13, 21, 30):
        pmf = component_pmf(n, m, shuffler=shuffler, clear_share=clear)
        assert pmf.shape == (n,)
        assert pmf.dtype == np.float64
        check_close(pmf, true[n][1:])
        assert abs(pmf.sum() - 1) <= 1e-12


@pytest.mark.parametrize(
    ("shuffler", "clear", "m"),
    [
        pytest.param("single", False, 3, marks=pytest.mark.slow),
        pytest.param("parallel", True, 10, marks=pytest.mark.slow),
        *(pytest.param(*setting, 5, marks=pytest.mark.slow) for setting in SETTINGS),
    ],
)
def test_floats_and_moments_agree_with_enclosures_at_three_hundred_users(
    m: int, shuffler: str, clear: bool
) -> None:
    law = enclosed_law(300, m, 300, shuffler=shuffler, clear_share=clear)
    low, high = ([mpq(p) for p in side] for side in zip(*map(ends, law), strict=True))
    assert all(p <= r <= p * (1 + TIGHT) for p, r in zip(low, high, strict=True))
    assert sum(low) <= 1 <= sum(high)
    pmf = component_pmf(300, m, shuffler=shuffler, clear_share=clear)
    assert high[-1] < LEAST < low[1]  # some fit a double, some do not
    check_close(pmf, high)
    assert abs(pmf.sum() - 1) <= 1e-12
    for q in (2, 2**64, 2**1000):
        moment = component_moment(300, m, q, shuffler=shuffler, clear_share=clear)
        powers = [q**c for c in range(300)]
        assert dot(powers[1:], low[1:]) <= mpq(moment.divergence)
        assert mpq(moment.divergence) <= dot(powers[1:], high[1:]) * (1 + TIGHT)
        less = [power - 1 for power in powers]
        assert dot(less, low) <= mpq(moment.excess) <= dot(less, high) * (1 + TIGHT)


def ends(found: Enclosure) -> tuple[mpfr, mpfr]:
    return found.low, found.high


def dot(weights: list[int], values: list[mpq]) -> mpq:
    return sum((w * p for w, p in zip(weights, values, strict=True)), mpq(0))


def rounded_cycle_law(n: int, step: int) -> list[mpfr]:
    """Return `cycle_law` to 400 digits: sums of positive terms, which lose none."""
    row = [mpfr(1)]
    with gmpy2.context(precision=400):
        for j in range(n):
            moved = [p * (step * j) for p in row]
            moved.append(mpfr(0))
            for c, p in enumerate(row, 1):
                moved[c] += p
            row = [p / (1 + step * j) for p in moved]
    return row[1:]


@pytest.mark.points(1)
@pytest.mark.parametrize(("shuffler", "clear", "m"), CYCLES)
@pytest.mark.parametrize("n", [400, pytest.param(1000, marks=pytest.mark.slow)])
def test_cycles_are_computed_without_loss(shuffler: str, clear: bool, m: int, n: int) -> None:
    """Differences 1 - ... double their errors with every user: 256 digits are gone at 300."""
    true = rounded_cycle_law(n, 1 if clear or shuffler == "parallel" else 2)
    pmf = component_pmf(n, m, shuffler=shuffler, clear_share=clear)
    check_close(pmf, true)
    assert abs(pmf.sum() - 1) <= 1e-12
    for found, p in zip(
        enclosed_law(n, m, 4, shuffler=shuffler, clear_share=clear), true[:4], strict=True
    ):
        assert mpq(found.low) <= mpq(p) * (1 + mpq(1, 2**380))
        assert mpq(found.high) >= mpq(p) * (1 - mpq(1, 2**380))
        assert mpq(found.high) - mpq(found.low) <= TIGHT * mpq(p)


def test_the_two_closed_forms_of_cycles_are_the_enumeration() -> None:
    for shuffler, clear, m in CYCLES:
        step = 1 if clear or shuffler == "parallel" else 2
        law = cycle_law(4, step)
        assert law == [sizes_law(4, m, shuffler, clear).count_is(c) for c in range(1, 5)]
        for p, rounded in zip(law, rounded_cycle_law(4, step), strict=True):
            assert abs(mpq(rounded) - p) <= mpq(1, 2**380)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shuffler", "clear", "m"),
    [(*SETTINGS[0], 9), (*SETTINGS[3], 4)],
)
def test_floats_agree_with_enclosures_at_the_most_users(m: int, shuffler: str, clear: bool) -> None:
    law = enclosed_law(MAX_LAW_USERS, m, 6, shuffler=shuffler, clear_share=clear)
    pmf = component_pmf(MAX_LAW_USERS, m, shuffler=shuffler, clear_share=clear)
    assert pmf.shape == (MAX_LAW_USERS,)
    check_close(pmf[:6], [found.high for found in law])
    for low, high in map(ends, law):
        assert mpq(low) <= mpq(high) <= mpq(low) * (1 + TIGHT)
    assert abs(pmf.sum() - 1) <= 1e-12


# Moments


def check_moment(moment: Moment, law: Callable[[int], mpq], n: int, q: int) -> None:
    """Assert that both are rounded up and tight, against P[C = c] on as many users."""
    powers = [mpq(q) ** (c - 1) * law(c) for c in range(1, n + 1)]
    for found, true in (
        (moment.excess, sum(powers, mpq(0)) - 1),
        (moment.divergence, sum(powers[1:], mpq(0))),
    ):
        assert true <= mpq(found) <= true * (1 + TIGHT)


@models
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("q", [2, 2**1000])
def test_moments_are_sums_over_the_rational_law(m: int, shuffler: str, clear: bool, q: int) -> None:
    true = component_counts(30, m, shuffler, clear)
    for n in (1, 2, 3, 11, 30):
        moment = component_moment(n, m, q, shuffler=shuffler, clear_share=clear)
        check_moment(moment, true[n].__getitem__, n, q)


def test_nobody_is_left_over_with_one_user() -> None:
    moment = component_moment(1, 3, 2**64)
    assert moment.excess == moment.divergence == 0
    assert component_pmf(1, 3).tolist() == [1.0]
    assert exact_component_law(1, 3) == (1,)


# What is refused


def test_other_refusals() -> None:
    with pytest.raises(ValueError, match=r"most must be .* 128, got 129"):
        enclosed_law(MAX_LAW_USERS + 1, 3, MAX_LAW_COMPONENTS + 1)
    with pytest.raises(ValueError, match=r"n must be at most 1000000 .*, got 1000001"):
        enclosed_law(MAX_CYCLE_USERS + 1, 1, 2)
