"""Lemma C.5 and the bound by ordered partitions: formulas, conditions, and the sweep over both."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from exact.share_graph import SETTINGS
from flint import arb, ctx
from gmpy2 import mpfr, mpq

from ikos.counts.share_graph import ShareGraph
from ikos.graphs import (
    Enclosure,
    Sweep,
    component_bound,
    component_bounds,
    exact_component_law,
    excess_bound,
    parts_bound,
    sweep,
)
from ikos.graphs.component_bounds import BOUNDS
from ikos.numeric.rounding import DOWN

LEMMA = BOUNDS["lemma_c5"]


def ball_bound(n: int, m: int, c: int) -> Any:
    """Return Lemma C.5's bound in ball arithmetic."""
    ctx.prec = 400
    ratio = arb(1).exp() / n
    return (arb(3) / 2) ** (c - 1) * ratio ** ((m - 1) * (c - 1)) / math.factorial(c)


@pytest.mark.parametrize("n", [19, 300, 10**12])
@pytest.mark.parametrize("m", [3, 10])
@pytest.mark.parametrize("c", [2, 7])
def test_lemma_is_rounded_up_by_at_most_a_step(n: int, m: int, c: int) -> None:
    value, true = component_bound(n, m, c), ball_bound(n, m, c)
    assert arb(value) >= true
    assert value == 5e-324 or arb(math.nextafter(value, 0)) < true


def test_lemma_at_one_component_is_one() -> None:
    assert component_bound(19, 3, 1) == 1.0


@pytest.mark.parametrize(("n", "m", "q"), [(19, 3, 2), (100, 4, 2**8), (10**6, 5, 2**64)])
def test_excess_bound_is_rounded_up_by_at_most_a_step(n: int, m: int, q: int) -> None:
    ctx.prec = 400
    true = q * (arb(1).exp() / n) ** (m - 1)
    value = excess_bound(n, m, q)
    assert arb(math.nextafter(value, 0)) < true <= arb(value)


def test_excess_bound_stops_where_the_lemma_does() -> None:
    """At (n/e)^(m-1)/2: for n = 100, m = 3 that is 676.67."""
    assert excess_bound(100, 3, 676) < 0.5
    with pytest.raises(ValueError, match=r"q must be at most .*, got 677"):
        excess_bound(100, 3, 677)
    with pytest.raises(ValueError, match="q must be at most"):
        excess_bound(10**6, 30, 2**3000)


@pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
@pytest.mark.parametrize("hiding", [2, 3, 4])
def test_parts_bound_is_above_the_law_and_not_far(shuffler: str, clear: bool, hiding: int) -> None:
    """For every n to 24 and every c, against rationals; at most five times above at c = 2."""
    m = hiding if clear else hiding + 1
    for n in range(2, 25):
        law = exact_component_law(n, m, shuffler=shuffler, clear_share=clear)
        for c, chance in enumerate(law, 1):
            bound = parts_bound(n, m, c, shuffler=shuffler, clear_share=clear)
            assert chance <= Fraction(bound)
            if c == 2:
                assert bound <= 5 * chance


@pytest.mark.parametrize(("n", "m"), [(10**9, 3), (10**50, 4), (19, 1000)])
def test_parts_bound_implies_the_lemma(n: int, m: int) -> None:
    for c in (2, 3, 10):
        assert parts_bound(n, m, c) <= component_bound(n, m, c)


@pytest.mark.parametrize(("m", "clear"), [(1, True), (2, False), (1, False)])
def test_parts_bound_needs_two_messages_that_hide(m: int, clear: bool) -> None:
    with pytest.raises(ValueError, match=f"m must be at least {2 if clear else 3} .*got {m}"):
        parts_bound(10, m, 2, clear_share=clear)


def test_bounds_rounded_down_are_below_the_true_bounds() -> None:
    """Strictly, to the last of 256 digits: against rationals and balls of 600."""
    for shuffler, clear in SETTINGS:
        for m in (3, 4, 6):
            graph = ShareGraph(m, shuffler, clear)
            hiding = m if clear else m - 1
            kappa = mpq(21, 10) if hiding == 2 else 1 + mpq(2, 3) ** (hiding - 3) / 2
            for n in (3, 7, 20):
                true = mpq(1)
                values = BOUNDS["parts"].values(n, graph, n, DOWN)
                for c in range(2, n + 1):
                    true *= kappa / ((c - 1) * graph.growth_exactly(n - c + 2))
                    assert values[c - 1] <= true
                    assert values[c - 1] > true * (1 - mpq(1, 2**200))
    ctx.prec = 600
    for n in range(19, 300):
        ratio = arb(3) / 2 * (arb(1).exp() / n) ** 2
        for c, value in enumerate(LEMMA.values(n, ShareGraph(3, "parallel", True), 4, DOWN), 1):
            true = ratio ** (c - 1) / math.factorial(c)
            ball = arb(str(mpq(value).numerator)) / arb(str(mpq(value).denominator))
            assert c == 1 or ball < true
            assert ball > true * (1 - arb(2) ** -200)


# The sweep


def test_sweep_compares_every_triple() -> None:
    found = sweep((19, 23), (3, 4))
    assert found.compared == 2 * sum(range(19, 24))
    assert found.users == (19, 23)
    assert [slack.m for slack in found.smallest] == [3, 4]


def test_sweep_reports_the_smallest_factor() -> None:
    """Against rationals: the smallest of bound over truth, c >= 2, rounded down."""
    found = sweep((19, 22), (3, 3))
    factors = {}
    for n in range(19, 23):
        for c, chance in enumerate(exact_component_law(n, 3), 1):
            if c > 1:
                ratio = ball_bound(n, 3, c) * chance.denominator / chance.numerator
                factors[n, c] = ratio
    least = min(factors, key=lambda key: float(factors[key].mid()))
    assert (found.tightest.n, found.tightest.c) == least
    assert arb(found.tightest.factor) <= factors[least]
    assert arb(found.tightest.factor) >= factors[least] * (1 - arb(1e-12))


@pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
def test_sweep_of_parts_holds_in_every_model(shuffler: str, clear: bool) -> None:
    first = 2 if clear else 3
    found = sweep((2, 30), (first, first + 2), bound="parts", shuffler=shuffler, clear_share=clear)
    assert found.holds
    assert found.tightest.factor >= 1


def test_sweep_finds_a_bound_that_fails_by_a_hair(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is a thousandth too small, at c = 2 or at c = 1."""
    found = sweep((19, 19), (3, 3))
    for place, factor in ((2, 0.999 / found.tightest.factor), (1, 0.99)):

        def wrong(*setting: Any, place: int = place, by: float = factor) -> list[mpfr]:
            return [
                value * by if c == place else value
                for c, value in enumerate(LEMMA.values(*setting), 1)
            ]

        monkeypatch.setitem(BOUNDS, "lemma_c5", replace(LEMMA, values=wrong))
        unproved = sweep((19, 19), (3, 3)).unproved
        assert [(slack.n, slack.m, slack.c) for slack in unproved] == [(19, 3, place)]


def test_sweep_divides_by_the_upper_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law that is not known well enough does not prove a bound."""
    right = component_bounds.laws

    def wide(n: int, graph: ShareGraph, most: int) -> Any:
        for column in right(n, graph, most):
            yield [e and Enclosure(e.low, e.high * 100) for e in column]

    monkeypatch.setattr(component_bounds, "laws", wide)
    assert not sweep((19, 20), (3, 3)).holds


def test_sweep_of_so_many_messages_that_one_component_is_certain() -> None:
    assert sweep((19, 40), (60, 62)).holds
    assert sweep((2, 30), (60, 62), bound="parts").holds
    assert sweep((2, 30), (60, 62), bound="parts", shuffler="single", clear_share=False).holds


def test_sweep_tells_its_progress() -> None:
    seen: list[tuple[int, int]] = []
    sweep((19, 21), (3, 4), progress=lambda done, whole: seen.append((done, whole)))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1][0] == seen[-1][1]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (((18, 20),), {}, "n must be at least 19"),
        (((40, 19), (3, 5)), {}, r"users must be .* \(40, 19\)"),
        (((1, 20),), {"bound": "parts"}, "users must be .* 1"),
        (((19, 5000),), {}, "users must be .* 5000"),
        (((19, 20),), {"clear_share": False}, "bound must be 'parts'"),
        (((2, 20), (1, 3)), {"bound": "parts"}, "m must be at least 2"),
    ],
)
def test_sweep_refuses(arguments: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sweep(*arguments, **options)


@pytest.mark.slow
def test_lemma_holds_for_19_to_300_users_and_3_to_10_messages() -> None:
    """Every c; the smallest factor by which it holds is at n = 19, c = 2, for every m."""
    found: Sweep = sweep((19, 300), (3, 10))
    assert found.holds
    assert found.compared == 8 * sum(range(19, 301))
    assert {(slack.n, slack.c) for slack in found.smallest} == {(19, 2)}
    assert 5.4977 < found.tightest.factor < 5.4978
