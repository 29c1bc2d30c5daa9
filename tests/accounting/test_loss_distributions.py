"""Loss distributions of dp-accounting against exact divergences and its own constructions."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mpmath import mp, mpf

from ikos.accounting import gaussian_delta, optimal_delta, response_delta
from ikos.accounting.blanket import ResponseBlanket
from ikos.accounting.composition import composed_divergence
from ikos.accounting.loss_masses import BITS, Masses, units
from ikos.baselines import CentralLaplace
from ikos.results.conditions import SEEDED, Condition, Kind
from ikos.results.guarantees import Guarantee
from ikos.testing import DeterministicRandom

pytest.importorskip("dp_accounting")

import dp_accounting
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld

from ikos.accounting.loss_distributions import (
    _pmf,
    composed,
    event,
    loss_of_curve,
    loss_of_guarantee,
)

GRID = np.arange(1, 61) / 20
ASSUMED = Condition(Kind.SCOPE, "if so")
PROVED = Guarantee(0.5, 1e-6, "theorem", (ASSUMED,))
OTHER = "add-or-remove-one"
DOUBLES = 1 - 1e-10  # what dp-accounting may lose by rounding

Pairs = list[tuple[Any, Any]]  # the probabilities of what is released under two neighbours


def delta_of(epsilon: float, pairs: Pairs) -> Any:
    """Return the divergence of one order, to 60 digits."""
    with mp.workdps(60):
        odds = mp.exp(mpf(epsilon))
        return sum(max(p - odds * q, mpf(0)) for p, q in pairs)


def responses(copies: int, epsilon: float, delta: float) -> Pairs:
    """Return the least private releases of a budget together, by the number of lies."""
    with mp.workdps(60):
        odds, told = mp.exp(-mpf(epsilon)), (1 - mpf(delta)) ** copies
        chances = [told / (1 + odds) ** copies]
        for i in range(copies):
            chances.append(chances[-1] * odds * (copies - i) / (i + 1))
        return [*zip(chances, reversed(chances), strict=True), (1 - told, mpf(0)), (0, 1 - told)]


def together(*releases: Pairs) -> Pairs:
    """Return independent releases together."""
    with mp.workdps(60):
        return [
            (mp.fprod(p for p, _ in one), mp.fprod(q for _, q in one)) for one in product(*releases)
        ]


@pytest.mark.parametrize("copies", [1, 7])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (0.33333, 1e-3), (1.0, 0.0)])
def test_a_guarantee_is_the_least_private_mechanism_with_it(epsilon, delta, copies):
    loss = loss_of_guarantee(Guarantee(epsilon, delta, "", ())).self_compose(copies)
    for total in (0.1, 0.7 * epsilon, 1.5 * epsilon):
        found = loss.get_delta_for_epsilon(total)
        assert found >= optimal_delta(total, copies, epsilon, delta) * (1 - 2e-9) - 1e-15
        assert found <= optimal_delta(total, copies, epsilon + 1e-4, delta) * (1 + 1e-10) + 1e-15


def test_a_guarantee_gets_the_distribution_that_dp_accounting_gives_it() -> None:
    theirs = pld.from_privacy_parameters(common.DifferentialPrivacyParameters(0.5, 1e-6), 0.125)
    ours = loss_of_guarantee(PROVED, interval=0.125)
    for epsilon in (-1.0, 0.0, 0.3, 0.5, 0.7):
        assert ours.get_delta_for_epsilon(epsilon) == pytest.approx(
            theirs.get_delta_for_epsilon(epsilon), rel=1e-12
        )


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_curves_are_covered_everywhere(mu: float) -> None:
    """On the grid exactly, between its points and beyond them from above."""
    loss = loss_of_curve(lambda e: gaussian_delta(e, mu), GRID)
    for epsilon in (*GRID, 0.001, 0.333, 1.234567, 2.97, 5.0):
        found, true = loss.get_delta_for_epsilon(float(epsilon)), gaussian_delta(epsilon, mu)
        assert true * DOUBLES <= found
        if epsilon in GRID:
            assert found == pytest.approx(true, rel=1e-8)


@pytest.mark.parametrize("epsilon", [-3.0, -1.0, -0.05])
def test_negative_losses_mirror_positive_ones(epsilon: float) -> None:
    """The divergence of an order below 1, by the formula for Gaussians."""
    loss = loss_of_curve(lambda e: gaussian_delta(e, 1.0), GRID)
    phi = [math.erfc((epsilon + sign * 0.5) / math.sqrt(2)) / 2 for sign in (-1, 1)]
    assert loss.get_delta_for_epsilon(epsilon) == pytest.approx(
        phi[0] - math.exp(epsilon) * phi[1], rel=1e-9
    )


def test_compositions_are_at_least_the_true_ones() -> None:
    loss = loss_of_curve(lambda e: gaussian_delta(e, 0.25), GRID / 2)
    for copies in (4, 9):
        found = loss.self_compose(copies).get_delta_for_epsilon(1.0)
        true = gaussian_delta(1.0, 0.25 * math.sqrt(copies))
        assert true * DOUBLES <= found < true * 1.1


@pytest.mark.slow
def test_shuffled_answers_compose_as_here() -> None:
    blankets = [ResponseBlanket(500, 3, Fraction(1, 5)), ResponseBlanket(800, 2, Fraction(1, 9))]
    losses = [
        loss_of_curve(lambda e, one=one: response_delta(e, one.n, one.k, one.gamma), GRID / 2)
        for one in blankets
    ]
    theirs = losses[0].compose(losses[1]).get_delta_for_epsilon(0.8)
    ours = composed_divergence(0.8, blankets, delta=theirs, cells=100)
    assert ours * (1 - 1e-3) <= theirs <= ours * 1.05


def test_values_off_by_rounding_do_no_harm() -> None:
    """A curve that is not quite convex, or not quite decreasing, is covered as well."""
    bumps = {round(e * 20): 1 + 1e-3 * (i % 3) for i, e in enumerate(GRID)}
    loss = loss_of_curve(lambda e: gaussian_delta(e, 0.5) * bumps[round(e * 20)], GRID)
    for epsilon in (*GRID, 0.01, 0.777):
        assert loss.get_delta_for_epsilon(float(epsilon)) >= gaussian_delta(epsilon, 0.5) * DOUBLES
    # a bound that grows again is no larger beyond than before
    grows = loss_of_curve(lambda e: 0.01 if e < 1 else 0.02, [0.5, 2.0])
    assert grows.get_delta_for_epsilon(3.0) == pytest.approx(0.01, rel=1e-12)


@pytest.mark.parametrize(
    ("copies", "epsilon", "delta", "total"),
    [
        (3000, 0.01, 1e-18, 1e-12),
        (1000, 0.01, 0.0, 1e-13),
        (1000, 0.01, 0.0, 1e-25),
        pytest.param(20_000, 0.002, 1e-20, 1e-12, marks=pytest.mark.slow),
        (1, 0.3, 0.0, 1e-9),
        (2, 0.3, 0.01, 0.0199 + 1e-9),
        (13, 0.5, 1e-3, 0.1),
        (8, 2.0, 1e-9, 1e-7),
    ],
)
def test_equal_guarantees_compose_exactly(copies, epsilon, delta, total):
    """To the delta of randomized responses, from above."""
    one = loss_of_guarantee(Guarantee(epsilon, delta, "", ()))
    found = composed(one.self_compose(copies), total)
    exact = responses(copies, epsilon, delta)
    assert found.delta == total
    assert delta_of(found.epsilon, exact) <= total
    assert delta_of(found.epsilon * (1 - 1e-6), exact) > total


@pytest.mark.parametrize("total", [2e-3, 0.1])
def test_unequal_guarantees_compose_exactly(total: float) -> None:
    budgets = [(0.3, 1e-3), (0.125, 0.0), (0.7, 1e-6), (0.3, 1e-3)]
    first, *others = (loss_of_guarantee(Guarantee(*budget, "", ())) for budget in budgets)
    exact = together(*(responses(1, *budget) for budget in budgets))
    epsilon = composed(
        first.compose(others[0]).compose(others[1].compose(others[2])), total
    ).epsilon
    assert delta_of(epsilon, exact) <= total < delta_of(epsilon * (1 - 1e-6), exact)


@pytest.mark.slow
@pytest.mark.parametrize("law", [[(0.9, 0.5), (0.1, 0.5)], [(0.5, 0.9), (0.5, 0.1)]])
@pytest.mark.parametrize("total", [0.01, 0.2, 0.5])
def test_both_orders_of_an_asymmetric_pair_are_bounded(law: Pairs, total: float) -> None:
    elsewhere = pld.from_two_probability_mass_functions(
        *({i: math.log(pair[side]) for i, pair in enumerate(law)} for side in (1, 0)),
        symmetric=False,
    )
    loss = loss_of_guarantee(PROVED).compose(elsewhere).compose(elsewhere)
    epsilon = composed(loss, total).epsilon
    exact = together(responses(1, PROVED.epsilon, PROVED.delta), law, law)
    other = [(q, p) for p, q in exact]
    assert max(delta_of(epsilon, exact), delta_of(epsilon, other)) <= total
    if epsilon:
        below = epsilon - 3e-4  # three losses, each rounded up to the grid
        assert max(delta_of(below, exact), delta_of(below, other)) > total
    twice = loss_of_guarantee(PROVED).compose(elsewhere).self_compose(2)
    assert composed(twice, total) == composed(loss.compose(loss_of_guarantee(PROVED)), total)


@pytest.mark.parametrize("sides", [(0, 1), (1, 0)])
def test_infinite_losses_of_either_order_count(sides: tuple[int, int]) -> None:
    law = [(0.9, 0.5), (0.1, 0.3), (0.0, 0.2)]
    elsewhere = pld.from_two_probability_mass_functions(
        *({i: math.log(pair[at]) for i, pair in enumerate(law) if pair[at]} for at in sides),
        symmetric=False,
    )
    loss = loss_of_curve(lambda _: 0.0, [1e-4]).compose(elsewhere)
    assert sorted([loss._pmf_remove._infinity_mass, loss._pmf_add._infinity_mass]) == (
        pytest.approx([0, 0.2], abs=1e-15)
    )
    with pytest.raises(ValueError, match=r"infinite losses, 0\.20"):
        composed(loss, 0.1)
    assert composed(loss, 0.3).epsilon > 0


@pytest.mark.parametrize("copies", [2, 3, 7, 3000, 4095])
def test_what_powers_cut_off_is_negligible(copies: int) -> None:
    loss = loss_of_guarantee(Guarantee(0.01, 0.0, "", ())).self_compose(copies)
    assert loss._pmf_remove._infinity_mass <= 1e-30


def test_losses_are_asked_for_on_the_grid_or_below() -> None:
    """Three times the double 0.1 is rounded up."""
    asked: list[float] = []
    loss_of_curve(lambda e: asked.append(e) or 0.1, [0.3], interval=0.1)
    assert asked[0] <= 3 * Fraction(0.1) <= asked[0] * (1 + 2.0**-48)


@given(st.integers(0, 1 << 161) | st.integers(0, 9))
@example((1 << 100) + 1)
@example((1 << 54) + 1)
def test_masses_are_rounded_up_to_doubles(mass: int) -> None:
    found = _pmf(Masses(0, 1, [mass], mass), loss_of_guarantee(PROVED)._pmf_remove)
    for double in (found._probs[0], found._infinity_mass):
        assert Fraction(mass, 1 << BITS) <= Fraction(float(double)) <= mass * (1 + 2.0**-49)


@given(st.floats(0, 1))
@example(1e-60)
def test_masses_are_rounded_up_to_multiples(mass: float) -> None:
    assert 0 <= Fraction(units(mass), 1 << BITS) - Fraction(mass) < Fraction(1, 1 << BITS)


@pytest.mark.points(1)
@pytest.mark.parametrize("copies", [1, 16, 100])
@pytest.mark.parametrize("total", [1e-6, 1e-14])
def test_curves_compose_to_at_least_the_true_one(copies: int, total: float) -> None:
    loss = loss_of_curve(lambda e: gaussian_delta(e, 0.1), np.arange(1, 81) / 80)
    found = composed(loss.self_compose(copies), total)
    assert gaussian_delta(found.epsilon, 0.1 * math.sqrt(copies)) <= total
    assert gaussian_delta(found.epsilon * 0.97, 0.1 * math.sqrt(copies)) > total


masses = st.lists(st.integers(0, 1 << 200) | st.integers(0, 9), min_size=1, max_size=6)


@given(masses, masses, st.integers(0, 1 << 200), st.integers(0, 1 << 90), st.integers(0, 1 << 170))
@example([1 << 150, 1 << 160], [1 << 160], 0, 0, 1 << 155)
def test_masses_are_multiplied_exactly_and_rounded_up(left, right, infinite, other, tail):
    one, two = Masses(-5, 1, left, infinite), Masses(3, 1, right, other)
    sums = [0] * (len(left) + len(right) - 1)
    for (i, p), (j, q) in product(enumerate(left), enumerate(right)):
        sums[i + j] += p * q
    unit = 1 << BITS
    rest = infinite * (sum(right) + other) + sum(left) * other
    exact = Masses(-2, 1, [-(-mass // unit) for mass in sums], -(-rest // unit))
    whole, cut = one.times(two, 0), one.times(two, tail)
    assert whole.infinite == exact.infinite
    assert exact.infinite <= cut.infinite <= exact.infinite + tail
    places = range(exact.first, exact.first + len(sums))

    def beyond(masses: Masses, place: int) -> int:
        """Return the mass of all losses from a place up."""
        return masses.infinite + sum(masses.finite[max(0, place - masses.first) :])

    for place in places:
        assert beyond(whole, place) == beyond(exact, place)
        assert 0 <= beyond(cut, place) - beyond(exact, place) <= tail


@pytest.mark.slow
def test_a_composed_guarantee() -> None:
    computational = replace(PROVED, conditions=(replace(ASSUMED, computational=True),))
    loss = loss_of_guarantee(computational).compose(pld.from_gaussian_mechanism(10, sensitivity=2))
    found = composed(loss, 1e-5, PROVED.conditions)
    assert found.delta == 1e-5
    assert loss.get_delta_for_epsilon(found.epsilon) == pytest.approx(1e-5, rel=1e-9)
    assert found.conditions[0] == ASSUMED
    assert found.proved
    assert found.computational
    one = loss_of_guarantee(PROVED)
    assert not composed(one, 1e-3).computational
    assert composed(
        one.compose(loss_of_guarantee(computational).self_compose(2)), 0.1
    ).computational


def test_what_dp_accounting_composes_is_not_taken_for_proved() -> None:
    loss = pld.identity().compose(loss_of_guarantee(PROVED))
    assert loss.get_epsilon_for_delta(1e-3) < 0.51
    with pytest.raises(TypeError, match="loss must be made here"):
        composed(loss, 1e-3)


@pytest.mark.parametrize("count", [1, 20])
def test_events_cover_pure_guarantees(count: int) -> None:
    pure = Guarantee(0.3, 0.0, "", ())
    accountant = dp_accounting.rdp.RdpAccountant(
        neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
    ).compose(event(pure), count)
    epsilon = accountant.get_epsilon(1e-6)
    assert optimal_delta(epsilon, count, 0.3) <= 1e-6
    assert event(pure).rho == pytest.approx(0.045)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: event(PROVED), "must have a delta of 0, got 1e-06"),
        (lambda: loss_of_guarantee(replace(PROVED, delta=1.0)), "guarantee must be proved"),
        (lambda: event(replace(PROVED, conditions=(SEEDED,))), "guarantee must be proved"),
        (lambda: event(replace(PROVED, delta=0.0, adjacency=OTHER)), "be for replace-one, got add"),
        (
            lambda: loss_of_guarantee(replace(PROVED, adjacency=OTHER)),
            "be for replace-one, got add",
        ),
        (lambda: loss_of_curve(lambda _: 0.1, [0.0]), "epsilons must be greater than 0"),
        (lambda: loss_of_curve(lambda _: math.nan, [0.1]), "delta must be finite, got nan"),
        (lambda: loss_of_curve(lambda _: 1.5, [0.1]), "delta must be at most 1, got 1.5"),
        (lambda: loss_of_guarantee(PROVED, interval=0), "interval must be greater than 0"),
        (lambda: composed(loss_of_guarantee(PROVED), 1e-7), "mass of infinite losses, 1e-06, got"),
        (lambda: composed(loss_of_guarantee(PROVED), 0), "delta must be greater than 0"),
        (
            lambda: loss_of_guarantee(PROVED).compose(
                pld.identity(1e-4, pessimistic_estimate=False)
            ),
            "Estimation types are different",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_runs_from_a_seed_are_refused() -> None:
    result = CentralLaplace(10, epsilon=1).run(np.zeros(10), DeterministicRandom(0))
    with pytest.raises(ValueError, match="guarantee must be proved"):
        event(result.guarantee)
