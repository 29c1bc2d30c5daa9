"""Bernoulli variables of rational and of exponential probability (CKS20)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.randomness import RandomSource


def bernoulli(numerators: NDArray[Any], denominator: int, rng: RandomSource) -> NDArray[np.bool_]:
    """Return independent Bernoulli variables of probability ``numerators / denominator``."""
    if denominator == 1:
        return numerators >= 1
    drawn = rng.uniform(denominator, numerators.size)
    return np.asarray(drawn < numerators, dtype=bool)


def bernoulli_exp(
    numerators: NDArray[Any], denominator: int, rng: RandomSource
) -> NDArray[np.bool_]:
    """Return Bernoulli variables of probability exp(-numerators / denominator), each in [0, 1].

    CKS20, Algorithm 1: with A_k ~ Bernoulli(x / k), the first k at which A_k = 0 is odd with
    probability 1 - x + x^2/2 - ... = exp(-x).
    """
    result = np.empty(numerators.size, dtype=bool)
    active = np.arange(numerators.size)
    k = 1
    while active.size:
        going_on = bernoulli(numerators, denominator * k, rng)
        result[active[~going_on]] = k % 2 == 1
        active, numerators = active[going_on], numerators[going_on]
        k += 1
    return result


def bernoulli_exp_any(
    numerators: NDArray[Any], denominator: int, rng: RandomSource
) -> NDArray[np.bool_]:
    """Return Bernoulli variables of probability exp(-numerators / denominator), each at least 0.

    CKS20, Algorithm 1: a variable of probability exp(-1) for each unit of the exponent's whole
    part, until one fails, and then one for the rest.
    """
    result = np.zeros(numerators.size, dtype=bool)
    active = np.arange(numerators.size)
    whole, rest = numerators // denominator, numerators % denominator
    while active.size:
        done = np.asarray(whole == 0, dtype=bool)
        finished = active[done]
        result[finished] = bernoulli_exp(rest[finished], denominator, rng)
        active, whole = active[~done], whole[~done] - 1
        kept = bernoulli_exp(np.ones(active.size, dtype=np.int64), 1, rng)
        active, whole = active[kept], whole[kept]
    return result
