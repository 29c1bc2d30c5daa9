"""Noise of integers, drawn exactly: no floating point decides anything."""

from __future__ import annotations

import ikos.noise.skellam  # noqa: F401  first, or it would take the place of the sampler later
from ikos.primitives.samplers import (
    discrete_gaussian,
    discrete_laplace,
    geometric,
    polya,
    polya_population,
    skellam,
)

__all__ = [
    "discrete_gaussian", "discrete_laplace", "geometric", "polya", "polya_population", "skellam",
]  # fmt: skip
