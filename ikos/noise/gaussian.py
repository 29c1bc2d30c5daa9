"""Discrete Gaussian noise (CKS20)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, overload

import numpy as np
from gmpy2 import isqrt
from numpy.typing import NDArray

from ikos.noise.draws import (
    INT64_MAX,
    Real,
    bernoulli_exp_any,
    deliver,
    how_many,
    largest,
    plus,
    positive,
)
from ikos.noise.laplace import geometric_draws
from ikos.randomness import RandomSource, secure


def _gaussian(variance: Fraction, count: int, rng: RandomSource) -> NDArray[Any]:
    """Return ``count`` draws with P[k] proportional to exp(-k^2 / (2 variance)).

    CKS20, Algorithm 3: Y is discrete Laplace of rate 1/t, t = floor(sigma) + 1, and kept with
    probability exp(-(|Y| - v/t)^2 / (2 v)) for the variance parameter v. That times exp(-|Y| / t)
    is proportional to exp(-Y^2 / (2 v)). The exponent is (|Y| b t - a)^2 / (2 a b t^2) for v = a/b.
    """
    a, b = variance.numerator, variance.denominator
    t = int(isqrt(a // b)) + 1
    rate, denominator = Fraction(1, t), 2 * a * b * t * t
    draws = np.empty(0, dtype=np.int64)
    while draws.size < count:
        # kept with probability above 1/2 for t >= 2: a third round is rare
        missing = count - draws.size
        drawn = plus(geometric_draws(rate, missing, rng), -geometric_draws(rate, missing, rng))
        size = np.abs(drawn)
        if max(largest(size) * b * t, a) ** 2 > INT64_MAX or denominator > INT64_MAX:
            size = size.astype(object)
        distance = size * (b * t) - a
        kept = drawn[bernoulli_exp_any(distance * distance, denominator, rng)]
        draws = kept if not draws.size else np.concatenate((draws, kept))
    return draws


@overload
def discrete_gaussian(
    variance: Real, size: None = None, rng: RandomSource | None = None
) -> int: ...
@overload
def discrete_gaussian(
    variance: Real, size: int, rng: RandomSource | None = None
) -> NDArray[Any]: ...
def discrete_gaussian(
    variance: Real, size: int | None = None, rng: RandomSource | None = None
) -> int | NDArray[Any]:
    """Draw exactly from the discrete Gaussian, P[k] proportional to exp(-k^2 / (2 variance)).

    Added to every coordinate of an integer vector of l2 sensitivity D, it gives
    (D^2 / (2 variance))-concentrated differential privacy (CKS20, Theorem 14), whose delta
    `ikos.accounting.vector_noise` computes.

    Parameters
    ----------
    variance : int, float or Fraction
        The parameter v = sigma^2, positive; a float stands for its exact value. The true variance
        is at most v, and almost v if v is above 1.
    size, rng
        As for `geometric`, like the result.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> draws = discrete_gaussian(10_000, 1000, DeterministicRandom(0))
    >>> draws.dtype, bool(90 < draws.std() < 110)
    (dtype('int64'), True)
    """
    draws = _gaussian(positive("variance", variance), how_many(size), secure(rng))
    return deliver(draws, size)
