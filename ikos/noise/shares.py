"""Polya noise, of which many shares add up to geometric noise (BBGN20, GX17)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ikos._validation import number
from ikos.noise.bernoulli import bernoulli
from ikos.noise.draws import INT64_MAX, Real, deliver, how_many, plus, positive
from ikos.noise.laplace import geometric_draws
from ikos.randomness import RandomSource, secure

MAX_SHAPE = 10**6
"""Largest shape of `polya`, whose time grows with it."""


def first_cycle(remaining: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
    """Return the length of the cycle through a point of a uniform permutation: 1..remaining."""
    if remaining.dtype == object:
        return np.array([1 + rng.integer(int(value)) for value in remaining], dtype=object)
    return 1 + rng.below(remaining)


def _thin(total: NDArray[Any], keep: Fraction, rng: RandomSource) -> NDArray[Any]:
    """Split geometric variables: return the part that is Polya(keep, alpha), for keep <= 1.

    The cycles of a uniform permutation of ``total`` points are kept with probability ``keep``
    each. Permutations of x points weighted by r^cycles add up to r (r+1) ... (r+x-1), so the
    points kept and the others are independent, Polya(r, alpha) and Polya(1 - r, alpha).
    """
    kept = np.zeros_like(total)
    active = np.flatnonzero(total > 0)
    remaining = total[active]
    while active.size:
        cycle = first_cycle(remaining, rng)
        ones = np.full(active.size, keep.numerator, dtype=object if _wide(keep) else np.int64)
        chosen = bernoulli(ones, keep.denominator, rng)
        kept[active[chosen]] += cycle[chosen]
        remaining = remaining - cycle
        going_on = np.asarray(remaining > 0, dtype=bool)
        active, remaining = active[going_on], remaining[going_on]
    return kept


def _wide(value: Fraction) -> bool:
    return value.denominator > INT64_MAX


@overload
def polya(r: Real, s: Real, size: None = None, rng: RandomSource | None = None) -> int: ...
@overload
def polya(r: Real, s: Real, size: int, rng: RandomSource | None = None) -> NDArray[Any]: ...
def polya(
    r: Real, s: Real, size: int | None = None, rng: RandomSource | None = None
) -> int | NDArray[Any]:
    """Draw exactly from the Polya (negative binomial) distribution with real shape.

    P[k] is proportional to exp(-s k) Gamma(k + r) / k!, for k >= 0. The sum of n independent
    Polya(1/n) variables is geometric, and the difference of two such sums discrete Laplace
    (BBGN20, Section 5.2; GX17).

    Parameters
    ----------
    r : int, float or Fraction
        Shape, positive and at most 10^6; a float is taken at its exact value (write
        ``Fraction(1, n)``, not ``1 / n``). Takes time proportional to ``r`` where it is above 1.
    s : int, float or Fraction
        Rate, positive; a float is taken at its exact value.
    size, rng
        As for `geometric`, like what is returned.

    Notes
    -----
    A draw takes about ln(1/s) steps: the cycle lengths of a uniform permutation of a geometric
    number of points, each cycle kept with probability r.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from ikos.testing import DeterministicRandom
    >>> share = polya(Fraction(1, 100), 0.05, 100, DeterministicRandom(3))
    >>> share.shape, bool((share >= 0).all())
    ((100,), True)
    """
    shape, rate = number("r", r, above=0, high=MAX_SHAPE), positive("s", s)
    count, source = how_many(size), secure(rng)
    whole, part = divmod(shape, 1)
    draws = np.zeros(count, dtype=np.int64)
    for _ in range(whole):
        draws = plus(draws, geometric_draws(rate, count, source))
    if part:
        draws = plus(draws, _thin(geometric_draws(rate, count, source), part, source))
    return deliver(draws, size)
