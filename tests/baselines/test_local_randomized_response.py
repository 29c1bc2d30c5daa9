"""Local randomized response: exactly private bit by bit, and its exact error."""

from __future__ import annotations

import math

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr, mpq
from statistical import FALSE_ALARM, p_value_bound

from ikos.baselines import LocalRandomizedResponse
from ikos.testing import DeterministicRandom


@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 0.5, 1.0, 5.0, 30.0])
def test_the_ratio_of_probabilities_is_at_most_e_to_the_epsilon(epsilon: float) -> None:
    protocol = LocalRandomizedResponse(10, epsilon)
    g = mpq(protocol.gamma / 2)
    with gmpy2.context(precision=300):
        bound = gmpy2.exp(mpfr(epsilon))
        assert (1 - g) / g <= bound
        broken = g / 2
        assert (1 - broken) / broken > bound


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 4.0])
def test_the_error_is_the_tables_row_and_the_supremum(epsilon: float) -> None:
    protocol = LocalRandomizedResponse(1000, epsilon, lower=1, upper=3)
    grown = math.exp(epsilon)
    assert protocol.mse == pytest.approx(4 * 1000 * (grown / (grown - 1) ** 2 + 0.25), rel=1e-12)
    gamma = float(protocol.gamma)
    x = np.linspace(0, 1, 1001)
    q = (1 - gamma) * x + gamma / 2
    assert protocol.mse == pytest.approx(4 * 1000 * (q * (1 - q) / (1 - gamma) ** 2).max())


def test_bits_have_the_right_law() -> None:
    users = 40_000
    for protocol, right in ((LocalRandomizedResponse(users, 1), True), ("halved", False)):
        if isinstance(protocol, str):
            protocol = LocalRandomizedResponse(users, 1)
            object.__setattr__(protocol, "gamma", protocol.gamma / 2)
        g = 1 / (math.e + 1)
        for value in (0.0, 1.0, 0.3):
            bits = protocol.randomize(np.full(users, value), DeterministicRandom(4))[0]
            one = g + (1 - 2 * g) * value
            found = p_value_bound(np.bincount(bits, minlength=2), [1 - one, one])
            assert (found > FALSE_ALARM) == right
