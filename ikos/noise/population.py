"""The noise shares of a whole population, drawn at once."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import integer
from ikos.noise.draws import INT64_MAX, MAX_DRAWS, Real, positive, shortened
from ikos.noise.laplace import geometric_draws, one_geometric
from ikos.noise.shares import MAX_SHAPE, first_cycle
from ikos.randomness import RandomSource, secure

_FEW = 8  # variables that are drawn faster one after the other than in lockstep


def polya_population(
    n: int, s: Real, *, parties: int | None = None, rng: RandomSource | None = None
) -> NDArray[Any]:
    """Draw the noise of a whole population: n independent differences of two Polya(1/parties).

    It takes a few steps in all and one pass over the output. With ``parties = n`` the n results add
    up to discrete Laplace noise of rate s.

    Parameters
    ----------
    n : int
        Users, at least 1.
    s : int, float or Fraction
        Rate of the noise, positive; a float is taken at its exact value.
    parties : int, optional
        How many users' noise makes one discrete Laplace variable; ``n`` by default. The sum of all
        n has n / parties times its variance (a client of its own is ``n = 1``).
    rng : RandomSource, optional
        Secure randomness by default.

    Returns
    -------
    (n,) ndarray
        int64, or object where a draw does not fit.

    Notes
    -----
    Users are filled up to groups of ``parties`` with imaginary ones, whose noise is dropped. Each
    group shares one geometric variable for each sign: each cycle of a uniform permutation of its
    points goes to a uniformly random member, which splits it into independent Polya(1/parties)
    parts (as `polya` splits one into two).

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
    """Draw what `polya_population` does; return the users with any noise, ascending, and theirs."""
    gaining, gains = _jumps(n, rate, parties, rng)
    losing, losses = _jumps(n, rate, parties, rng)
    users, places = np.unique(np.concatenate((gaining, losing)), return_inverse=True)
    exact = (
        sum(map(int, gains)) + sum(map(int, losses)) > INT64_MAX
    )  # else no user's sum exceeds it
    noise = np.zeros(users.size, dtype=object if exact else np.int64)
    np.add.at(noise, places[: gaining.size], gains)
    np.subtract.at(noise, places[gaining.size :], losses)
    return users, shortened(noise) if exact else noise


def polya_jumps(
    n: int, s: Real, *, variables: int, parties: int, rng: RandomSource | None = None
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Draw n independent Polya(variables / parties, e^-s) variables, as the jumps they are made of.

    ``variables`` geometric variables are shared by ``parties`` users. Returns users, perhaps
    repeatedly, and what each gets, at least 1. It takes time and memory in proportion to the jumps,
    about ``n variables / parties`` times ln(1/s).
    """
    n = integer("n", n, low=1, high=1 << 62)
    shared = integer("variables", variables, low=1, high=MAX_SHAPE)
    parties = integer("parties", parties, low=1, high=1 << 62)
    return _jumps(n, positive("s", s), parties, secure(rng), shared)


def _jumps(
    n: int, rate: Fraction, parties: int, rng: RandomSource, variables: int = 1
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return users of one sign's noise and the amounts they get; a user may occur repeatedly."""
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
    """Return what `_jumps` does, one variable after the other: faster than lockstep for few."""
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
