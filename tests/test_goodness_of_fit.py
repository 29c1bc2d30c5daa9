"""The suite's own test statistics: the false-alarm bound holds, and they have power."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import pytest
from statistical import (
    FALSE_ALARM,
    discrete_laplace_law,
    polya_law,
    uniform_p_value,
)

from ikos.results.confidence import p_value_bound, tail_bound
from ikos.testing import DeterministicRandom


@pytest.mark.parametrize(
    ("law", "draws"),
    [((0.5, 0.5), 40), ((0.01, 0.99), 30), ((0.2, 0.3, 0.5), 20), ((0.1, 0.1, 0.4, 0.4), 10)],
)
def test_p_value_bound_is_at_least_the_exact_p_value(law: tuple[float, ...], draws: int) -> None:
    chances: dict[float, float] = {}
    for counts in product(range(draws + 1), repeat=len(law)):
        if sum(counts) == draws:
            ways = math.factorial(draws) / math.prod(map(math.factorial, counts))
            chance = ways * math.prod(p**c for p, c in zip(law, counts, strict=True))
            bound = p_value_bound(counts, law)
            chances[bound] = chances.get(bound, 0.0) + chance
    for bound in chances:
        assert sum(p for b, p in chances.items() if b <= bound) <= bound * (1 + 1e-9)


def test_tail_bound_falls_and_is_never_above_one() -> None:
    bounds = [tail_bound(t, 24) for t in np.linspace(0, 200, 400)]
    assert bounds[0] == 1.0
    assert all(a >= b for a, b in pairwise(bounds))
    assert bounds[-1] < FALSE_ALARM


def test_uniform_test_accepts_uniform_and_rejects_a_bias_of_five_per_cent() -> None:
    drawn = DeterministicRandom(1).uniform(16, 200_000).astype(np.int64)
    assert uniform_p_value(drawn, 16) > FALSE_ALARM
    drawn[:10_000] &= 7
    assert uniform_p_value(drawn, 16) < FALSE_ALARM


def test_a_value_outside_the_support_is_rejected_for_certain() -> None:
    assert p_value_bound([99, 1], [1.0, 0.0]) == 0.0
    assert polya_law(0.5, 1.0).p_value(np.array([0, 1, -1])) == 0.0


@pytest.mark.parametrize("s", [0.02, 0.1, 1.5])
def test_difference_of_geometric_laws_is_the_discrete_laplace_law(s: float) -> None:
    difference = polya_law(1.0, s).minus(polya_law(1.0, s))
    direct = discrete_laplace_law(s)
    lag = direct.first - difference.first
    assert abs(difference.pmf.sum() - 1) < 1e-12
    middle = difference.pmf[lag : lag + direct.pmf.size]
    np.testing.assert_allclose(middle, direct.pmf, atol=1e-14)
