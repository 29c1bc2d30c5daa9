"""Exact noise."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from ikos import noise


def test_population_noise_for_a_million_users(against: Callable[..., float]) -> None:
    """Against one pass over the memory of its output."""
    out = np.empty(10**6, dtype=np.int64)
    against(
        lambda: noise.polya_population(10**6, Fraction(1, 3536)), lambda: out.fill(0), rounds=50
    )


def test_discrete_laplace_for_a_million_draws(against: Callable[..., float]) -> None:
    """Against numpy's inexact, predictable geometric sampler, twice."""
    rng = np.random.default_rng(0)

    def floor() -> None:
        rng.geometric(0.02, 10**6) - rng.geometric(0.02, 10**6)

    against(lambda: noise.discrete_laplace(Fraction(1, 50), 10**6), floor, rounds=5)
