"""Loss distributions of dp-accounting against exact divergences and its own constructions."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ikos.accounting import gaussian_delta, optimal_delta, response_delta
from ikos.accounting.blanket import ResponseBlanket
from ikos.accounting.composition import composed_divergence
from ikos.baselines import CentralLaplace
from ikos.results import NOT, Guarantee
from ikos.testing import DeterministicRandom

pytest.importorskip("dp_accounting")

import dp_accounting
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld

from ikos.accounting.loss_distributions import composed, event, loss_of_curve, loss_of_guarantee

GRID = np.arange(1, 61) / 20
PROVED = Guarantee(0.5, 1e-6, "theorem", ("if so",))
DOUBLES = 1 - 1e-10  # what dp-accounting may lose by rounding


@pytest.mark.parametrize("copies", [1, 7])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (0.33333, 1e-3), (1.0, 0.0)])
def test_a_guarantee_is_the_least_private_mechanism_with_it(
    epsilon: float, delta: float, copies: int
) -> None:
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


def test_a_composed_guarantee() -> None:
    loss = loss_of_guarantee(PROVED).compose(pld.from_gaussian_mechanism(10, sensitivity=2))
    found = composed(loss, 1e-5, PROVED.conditions)
    assert found.delta == 1e-5
    assert loss.get_delta_for_epsilon(found.epsilon) <= 1e-5
    assert loss.get_delta_for_epsilon(found.epsilon * (1 - 1e-8)) > 1e-5
    assert found.conditions[0] == "if so"
    assert found.proved


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
        (lambda: event(replace(PROVED, conditions=(f"{NOT}run",))), "guarantee must be proved"),
        (lambda: loss_of_curve(lambda _: 0.1, [0.0]), "epsilons must be greater than 0"),
        (lambda: loss_of_curve(lambda _: math.nan, [0.1]), "delta must be finite, got nan"),
        (lambda: loss_of_curve(lambda _: 1.5, [0.1]), "delta must be at most 1, got 1.5"),
        (lambda: loss_of_guarantee(PROVED, interval=0), "interval must be greater than 0"),
        (lambda: composed(loss_of_guarantee(PROVED), 1e-7), "delta must exceed the mass"),
        (lambda: composed(loss_of_guarantee(PROVED), 0), "delta must be greater than 0"),
        (
            lambda: composed(pld.from_gaussian_mechanism(3, pessimistic_estimate=False), 0.1),
            "loss must be a pessimistic estimate",
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
