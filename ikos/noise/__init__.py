"""Noise of integers, drawn exactly: no floating point decides anything."""

from __future__ import annotations

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
