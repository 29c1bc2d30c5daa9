"""The common part of the samplers: Bernoulli variables (CKS20), arguments, and long integers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import integer, number
from ikos.randomness import RandomSource

Real = int | float | Fraction

INT64_MAX = (1 << 63) - 1

MAX_DRAWS = 1 << 40
"""Most draws of one call."""


def positive(name: str, value: object) -> Fraction:
    """Check and return a rate or a variance."""
    return number(name, value, above=0)


def how_many(size: object) -> int:
    """Check and return the number of draws."""
    return 1 if size is None else integer("size", size, low=0, high=MAX_DRAWS)


def deliver(draws: NDArray[Any], size: object) -> int | NDArray[Any]:
    """Return one draw as a Python int for ``size=None``, or the array in its smallest dtype."""
    return int(draws[0]) if size is None else shortened(draws)


def shortened(draws: NDArray[Any]) -> NDArray[Any]:
    """Return draws as int64 if all of them fit."""
    if draws.dtype == object and all(abs(int(value)) <= INT64_MAX for value in draws):
        return draws.astype(np.int64)
    return draws


def plus(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return a + b without overflow: as object arrays if int64 might not suffice."""
    if largest(a) + largest(b) > INT64_MAX:
        return np.asarray(a.astype(object) + b.astype(object))
    return np.asarray(a + b)


def largest(values: NDArray[Any]) -> int:
    """Return the largest absolute value; 0 for no values."""
    return max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))


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
