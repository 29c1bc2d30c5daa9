"""Polya noise: shares of many users that add up to geometric noise (BBGN20, GX17)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ikos._validation import integer, number
from ikos.noise.draws import (
    INT64_MAX,
    MAX_DRAWS,
    Real,
    bernoulli,
    deliver,
    how_many,
    plus,
    positive,
    shortened,
)
from ikos.noise.laplace import geometric_draws, one_geometric
from ikos.randomness import RandomSource, secure

MAX_SHAPE = 10**6
"""Largest shape of `polya`; its time grows with the shape."""

_FEW = 8  # most variables that are faster to draw one by one than all at once


def first_cycle(remaining: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
    """Return the length of the cycle through a point of a uniform permutation: 1..remaining."""
    if remaining.dtype == object:
        return np.array([1 + rng.integer(int(value)) for value in remaining], dtype=object)
    return 1 + rng.below(remaining)


def _thin(total: NDArray[Any], keep: Fraction, rng: RandomSource) -> NDArray[Any]:
    """Return the Polya(keep, alpha) parts of geometric variables, for keep <= 1.

    The cycles of a uniform permutation of ``total`` points are kept with probability ``keep``
    each. Permutations of x points weighted by r^cycles add up to r (r+1) ... (r+x-1), so the
    points kept and the others are independent, Polya(r, alpha) and Polya(1 - r, alpha).
    """
    kind = object if keep.denominator > INT64_MAX else np.int64
    kept = np.zeros_like(total)
    active = np.flatnonzero(total > 0)
    remaining = total[active]
    while active.size:
        cycle = first_cycle(remaining, rng)
        ones = np.full(active.size, keep.numerator, dtype=kind)
        chosen = bernoulli(ones, keep.denominator, rng)
        kept[active[chosen]] += cycle[chosen]
        remaining = remaining - cycle
        going_on = np.asarray(remaining > 0, dtype=bool)
        active, remaining = active[going_on], remaining[going_on]
    return kept


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
        Shape, positive and at most 10^6; a float stands for its exact value (write ``Fraction(1,
        n)``, not ``1 / n``). Above 1, time is proportional to it.
    s : int, float or Fraction
        Rate, positive; a float stands for its exact value.
    size, rng
        As for `geometric`, like the result.

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


def polya_population(
    n: int, s: Real, *, parties: int | None = None, rng: RandomSource | None = None
) -> NDArray[Any]:
    """Draw the noise of a whole population: n independent differences of two Polya(1/parties).

    With ``parties = n`` the results add up to discrete Laplace noise of rate s. Time is that of a
    few draws and one pass over the output.

    Parameters
    ----------
    n : int
        Number of users, at least 1.
    s : int, float or Fraction
        Rate of the noise, positive; a float stands for its exact value.
    parties : int, optional
        How many users' noise adds up to one discrete Laplace variable; ``n`` by default. The sum
        over all n has n / parties times its variance. A single client takes ``n = 1``.
    rng : RandomSource, optional
        Secure randomness by default.

    Returns
    -------
    (n,) ndarray
        int64, or object if a draw does not fit.

    Notes
    -----
    Imaginary users, whose noise is dropped, complete the last group of ``parties``. Each group
    shares one geometric variable per sign: each cycle of a uniform permutation of its points goes
    to a uniformly random member, which splits it into independent Polya(1/parties) parts (as
    `polya` splits one into two).

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> noise = polya_population(10**6, 0.001, rng=DeterministicRandom(4))
    >>> noise.shape, bool(0 < (noise != 0).sum() < 100)
    ((1000000,), True)
    """
    n = integer("n", n, low=1, high=MAX_DRAWS)
    parties = n if parties is None else integer("parties", parties, low=1, high=1 << 62)
    users, noise = polya_shares(n, positive("s", s), parties, secure(rng))
    result = np.zeros(n, dtype=noise.dtype)
    result[users] = noise
    return result


def polya_shares(
    n: int, rate: Fraction, parties: int, rng: RandomSource
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the users with any noise of `polya_population`, ascending, and their noise."""
    added, above = polya_jumps(n, rate, parties, rng)
    taken, below = polya_jumps(n, rate, parties, rng)
    users, places = np.unique(np.concatenate((added, taken)), return_inverse=True)
    large = sum(map(int, above)) + sum(map(int, below)) > INT64_MAX  # otherwise no partial sum is
    noise = np.zeros(users.size, dtype=object if large else np.int64)
    np.add.at(noise, places[: added.size], above)
    np.subtract.at(noise, places[added.size :], below)
    return users, shortened(noise) if large else noise


def polya_jumps(
    n: int, rate: Fraction, parties: int, rng: RandomSource, variables: int = 1
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Draw n independent Polya(variables / parties, e^-rate) variables as jumps of at least 1.

    Returns users, perhaps repeatedly, and the jump of each. Time and memory are in proportion to
    the jumps, about ``n variables / parties`` times ln(1 / rate).
    """
    groups = -(-n // parties)
    if groups * variables <= _FEW:
        return _few_jumps(n, rate, parties, rng, variables)
    remaining = geometric_draws(rate, groups * variables, rng)
    index = np.flatnonzero(remaining > 0)
    remaining = remaining[index]
    group = index // variables
    users: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    amounts: list[NDArray[Any]] = [np.empty(0, dtype=remaining.dtype)]
    while group.size:
        cycle = first_cycle(remaining, rng)
        user = group * parties + rng.below(np.full(group.size, parties, dtype=np.int64))
        real = user < n
        users.append(user[real])
        amounts.append(cycle[real])
        remaining = remaining - cycle
        going_on = np.asarray(remaining > 0, dtype=bool)
        group, remaining = group[going_on], remaining[going_on]
    return np.concatenate(users), np.concatenate(amounts)


def _few_jumps(
    n: int, rate: Fraction, parties: int, rng: RandomSource, variables: int
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the same as `polya_jumps`, one variable at a time."""
    users, amounts = [], []
    for one in range(-(-n // parties) * variables):
        first, remaining = one // variables * parties, one_geometric(rate, rng)
        while remaining:
            cycle = 1 + rng.integer(remaining)
            user = first + rng.integer(parties)
            if user < n:
                users.append(user)
                amounts.append(cycle)
            remaining -= cycle
    large = max(amounts, default=0) > INT64_MAX
    return (np.array(users, dtype=np.int64), np.array(amounts, dtype=object if large else np.int64))
