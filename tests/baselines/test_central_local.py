"""Central and local Laplace: the laws of what is published and of what is sent."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from statistical import FALSE_ALARM, discrete_laplace_law, p_value_bound

from ikos.baselines import CentralDiscreteLaplace, CentralLaplace, LocalLaplace
from ikos.baselines.base import exact_sums
from ikos.baselines.central_model import FINE
from ikos.testing import DeterministicRandom

CELLS = 24


def laplace_p_value(draws: NDArray[np.float64], scale: float) -> float:
    """Test draws against the Laplace law, on cells of equal probability."""
    cells = np.minimum((stats.laplace(scale=scale).cdf(draws) * CELLS).astype(int), CELLS - 1)
    return p_value_bound(np.bincount(cells, minlength=CELLS), np.full(CELLS, 1 / CELLS))


def published(protocol: CentralDiscreteLaplace, steps: int, runs: int) -> NDArray[np.int64]:
    """Return what the curator adds to sums of messages that are all 0, 1, ... or ``steps``."""
    rng, noise = DeterministicRandom(1), []
    for run in range(runs):
        messages = np.full((1, protocol.n), run % (steps + 1), dtype=np.int64)
        noisy = int(protocol.shuffle(messages, rng).columns[0][1])
        noise.append(noisy - int(messages.sum()))
    return np.array(noise)


@pytest.mark.slow
def test_the_curator_adds_discrete_laplace_noise_whatever_the_sum() -> None:
    protocol = CentralDiscreteLaplace(5, 1, precision=20)
    noise = published(protocol, 20, 4000)
    assert discrete_laplace_law(1 / 20).p_value(noise) > FALSE_ALARM
    for wrong in (1 / 16, 1 / 25, 1 / 10, 1):
        assert discrete_laplace_law(wrong).p_value(noise) < FALSE_ALARM


@pytest.mark.points(0)
def test_the_continuous_curator_adds_laplace_noise() -> None:
    noise = published(CentralLaplace(5, 0.5), 3, 4000) / FINE
    assert laplace_p_value(noise, 2.0) > FALSE_ALARM
    assert laplace_p_value(noise, 1.6) < FALSE_ALARM
    assert laplace_p_value(noise, 2.5) < FALSE_ALARM


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_local_messages_are_values_with_laplace_noise(value: float) -> None:
    protocol = LocalLaplace(50_000, 0.5)
    messages = protocol.randomize(np.full(50_000, value), DeterministicRandom(2))
    noise = messages[0] / FINE - value
    assert laplace_p_value(noise, 2.0) > FALSE_ALARM
    assert laplace_p_value(noise, 1.85) < FALSE_ALARM
    assert laplace_p_value(noise, 2.15) < FALSE_ALARM
    assert laplace_p_value(noise + 0.2, 2.0) < FALSE_ALARM


@given(st.floats(1e-6, 100), st.integers(1, 10**6), st.integers(1, 2**32))
def test_rates_never_exceed_the_budget(epsilon: float, n: int, precision: int) -> None:
    """Rate times sensitivity, exactly: the guarantee of either mechanism."""
    central = CentralDiscreteLaplace(n, epsilon, precision=precision)
    assert central.epsilon / central.precision * precision == Fraction(epsilon)
    assert Fraction(central.guarantee.epsilon) >= Fraction(epsilon)
    local = LocalLaplace(n, epsilon)
    assert 0.9999 * Fraction(epsilon) <= local._rate * FINE <= Fraction(epsilon)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_mean_squares_are_the_textbooks(epsilon: float) -> None:
    assert CentralLaplace(1000, epsilon).mse == pytest.approx(2 / epsilon**2, rel=1e-6)
    assert LocalLaplace(1000, epsilon).mse == pytest.approx(2000 / epsilon**2, rel=1e-6)
    p, n = 30, 1000
    alpha = math.exp(-epsilon / p)
    exact = 2 * alpha / (1 - alpha) ** 2 / p**2 + n / 4 / p**2
    assert CentralDiscreteLaplace(n, epsilon, precision=p).mse == pytest.approx(exact)


@given(st.lists(st.integers(-(2**62), 2**62), max_size=30))
def test_exact_sum_of_large_integers(values: list[int]) -> None:
    assert int(exact_sums(np.array(values, dtype=np.int64))) == sum(values)
