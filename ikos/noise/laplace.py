"""Geometric and discrete Laplace noise (CKS20)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ikos.noise.draws import (
    INT64_MAX,
    Real,
    bernoulli_exp,
    deliver,
    how_many,
    plus,
    positive,
)
from ikos.randomness import RandomSource, secure


def geometric_draws(s: Fraction, count: int, rng: RandomSource) -> NDArray[Any]:
    """Return ``count`` draws with P[k] proportional to exp(-s k): int64 where all fit, or object.

    CKS20, Algorithm 2: with s = a/b, P[X = x] is proportional to exp(-x / b) for X = U + b V, where
    U in [0, b) is kept with probability exp(-U / b) and V counts successes of Bernoulli(exp(-1));
    the draw is floor(X / a).
    """
    a, b = s.numerator, s.denominator
    low = np.empty(0, dtype=object)
    if b == 1:
        low = np.zeros(count, dtype=np.int64)
    while low.size < count:
        missing = count - low.size
        drawn = rng.uniform(b, missing)
        kept = drawn[bernoulli_exp(drawn, b, rng)]
        low = kept if not low.size else np.concatenate((low, kept))
    high = np.zeros(count, dtype=np.int64)
    active = np.arange(count)
    while active.size:
        active = active[bernoulli_exp(np.ones(active.size, dtype=np.int64), 1, rng)]
        high[active] += 1
    above = b * (int(high.max(initial=0)) + 1)  # exceeds every X
    if max(a, above) <= INT64_MAX:
        return np.asarray((low.astype(np.int64) + b * high) // a)
    wide = (low.astype(object) + b * high.astype(object)) // a
    return np.asarray(wide.astype(np.int64) if above // a <= INT64_MAX else wide)


@overload
def geometric(s: Real, size: None = None, rng: RandomSource | None = None) -> int: ...
@overload
def geometric(s: Real, size: int, rng: RandomSource | None = None) -> NDArray[Any]: ...
def geometric(
    s: Real, size: int | None = None, rng: RandomSource | None = None
) -> int | NDArray[Any]:
    """Draw exactly from the geometric distribution, P[k] proportional to exp(-s k) for k >= 0.

    Parameters
    ----------
    s : int, float or Fraction
        Rate, positive; a float stands for its exact value.
    size : int, optional
        Number of independent draws; a single Python int by default.
    rng : RandomSource, optional
        Secure randomness by default.

    Returns
    -------
    int or (size,) ndarray
        int64, or object if a draw does not fit.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> geometric(0.01, rng=DeterministicRandom(2)) >= 0
    True
    """
    draws = geometric_draws(positive("s", s), how_many(size), secure(rng))
    return deliver(draws, size)


@overload
def discrete_laplace(s: Real, size: None = None, rng: RandomSource | None = None) -> int: ...
@overload
def discrete_laplace(s: Real, size: int, rng: RandomSource | None = None) -> NDArray[Any]: ...
def discrete_laplace(
    s: Real, size: int | None = None, rng: RandomSource | None = None
) -> int | NDArray[Any]:
    """Draw exactly from the discrete Laplace distribution, P[k] proportional to ``exp(-s |k|)``.

    Added to an integer of sensitivity D it gives (s D)-differential privacy. It is drawn as the
    difference of two independent geometric variables.

    Parameters
    ----------
    s : int, float or Fraction
        Inverse scale, positive; a float stands for its exact value. The variance is 2 e^-s / (1 -
        e^-s)^2, about 2 / s^2.
    size, rng
        As for `geometric`, like the result.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from ikos.testing import DeterministicRandom
    >>> draws = discrete_laplace(Fraction(1, 50), 1000, DeterministicRandom(0))
    >>> draws.dtype, bool(abs(draws.mean()) < 20)
    (dtype('int64'), True)
    """
    rate, count, source = positive("s", s), how_many(size), secure(rng)
    draws = plus(geometric_draws(rate, count, source), -geometric_draws(rate, count, source))
    return deliver(draws, size)


def one_bernoulli_exp(numerator: int, denominator: int, rng: RandomSource) -> bool:
    """Return one Bernoulli variable, as `bernoulli_exp` does."""
    k = 1
    while rng.integer(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


def one_geometric(s: Fraction, rng: RandomSource) -> int:
    """Return one draw, as `geometric_draws` does."""
    a, b = s.numerator, s.denominator
    low, high = rng.integer(b), 0
    while not one_bernoulli_exp(low, b, rng):
        low = rng.integer(b)
    while one_bernoulli_exp(1, 1, rng):
        high += 1
    return (low + b * high) // a
