"""The error of sums with helpers: that of all noise that is added, by users or by each party."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from statistical import FALSE_ALARM, IntegerLaw, discrete_laplace_law, skellam_law

from ikos import Categories, PrivateSum, PrivateVectorSum
from ikos.testing import DeterministicRandom
from ikos.transports import Helpers, Reports

RECIPES = [(Helpers(1), 1), (Helpers(3), 1), (Helpers(1, "parties"), 2), (Helpers(2, "parties"), 3)]
"""With how many whole variables of noise each adds."""


def several(law: IntegerLaw, variables: int) -> IntegerLaw:
    """Return the law of the sum of independent variables of a symmetric law."""
    total = law
    for _ in range(variables - 1):
        total = total.minus(law)
    return total


def variance(law: IntegerLaw) -> float:
    """Return the variance of a symmetric law."""
    values = law.first + np.arange(law.pmf.size)
    return float((law.pmf * values**2).sum())


@pytest.mark.parametrize(("recipe", "variables"), RECIPES)
def test_check_values(recipe: Helpers, variables: int) -> None:
    """Of one, two and three noises at epsilon = 1 and range 1, and half of that at epsilon = 2."""
    expected = {1: 1.41, 2: 2.00, 3: 2.45}[variables]
    for epsilon in (1, 2):
        protocol = PrivateSum(10**4, epsilon, 1e-9, transport=recipe)
        assert epsilon * math.sqrt(protocol.mse) == pytest.approx(expected, rel=0.01)
        law = several(discrete_laplace_law(epsilon / protocol.precision), variables)
        noise = variance(law) / protocol.precision**2
        assert noise <= protocol.mse <= 1.011 * noise  # with one percent for rounding


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "variables"), RECIPES)
def test_errors_of_numbers_have_their_law(recipe: Helpers, variables: int) -> None:
    protocol = PrivateSum(3, 1, 1e-9, upper=40, integers=True, transport=recipe)
    rng, x = DeterministicRandom(variables), [0, 40, 7]
    errors = np.array([protocol.run(x, rng, threads=1).estimate - 47 for _ in range(1500)])
    one = discrete_laplace_law(1 / 40)
    assert several(one, variables).p_value(errors) > FALSE_ALARM
    assert several(one, variables + 2).p_value(errors) < FALSE_ALARM
    assert protocol.mse == pytest.approx(variance(several(one, variables)), rel=1e-3)


@pytest.mark.points(1)
@pytest.mark.parametrize(("recipe", "variables"), RECIPES)
def test_errors_of_vectors_have_their_law(recipe: Helpers, variables: int) -> None:
    """Of a histogram, with Skellam noise."""
    protocol = PrivateVectorSum(3, Categories([500]), 1, 1e-4, releases=20, transport=recipe)
    assert protocol.noise.kind == "skellam"
    rng, x = DeterministicRandom(variables), np.eye(500)[[0, 3, 3]]
    errors = np.ravel([protocol.run(x, rng).estimate - x.sum(axis=0) for _ in range(4)])
    law = skellam_law(variables * float(protocol.noise.value))
    assert law.p_value(errors) > FALSE_ALARM
    assert skellam_law((variables + 2) * float(protocol.noise.value)).p_value(errors) < FALSE_ALARM
    assert protocol.mse == pytest.approx(500 * variance(law), rel=1e-3)


@pytest.mark.parametrize("recipe", [recipe for recipe, _ in RECIPES])
def test_one_user_reaches_the_influence_and_no_more(recipe: Helpers) -> None:
    protocol = PrivateSum(
        2, 1, 1e-9, lower=-1, upper=2, precision=3, modulus=64, transport=recipe
    )  # fmt: skip
    honest = protocol.share([0.0, 1.0], DeterministicRandom(1), context=b"one sum")

    def estimate(element: int) -> float:
        vectors = honest.parts[0][0].copy()
        vectors[0] = element
        sent: Any = Reports(honest.ids, ((vectors,), *honest.parts[1:]))
        view = protocol.shuffle(sent, DeterministicRandom(2), context=b"one sum")
        return float(protocol.analyze(view, context=b"one sum").estimate)

    found = [estimate(element) for element in range(64)]
    assert max(found) - min(found) == pytest.approx(protocol.influence)
