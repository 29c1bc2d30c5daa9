"""How far malicious users can move a sum.

What n, k, epsilon, delta, Err and a stand for is said in the package.

*Malicious users.* The analyzer adds up the messages, without bias; there is no other limit than
their number. Let u be uniform on the sphere. A message of R(u) with a correlation to u above t is
there with probability at most e^epsilon n k (1 - t^2)^((d-1)/2) / 2 + delta, as in a run without u.
Without such a message the part of R(u) along u is at most t k M, M the longest message. It has
mean 1 and variance at most a, and so exceeds z with probability at least q = (1-z)^2/(a + (1-z)^2).
If the first probability is q/2 or less, then R(u) has a message of norm z / (t k) or more with
probability q/2, and who draws some 2/q times has it. Sent k times it adds a vector of norm z / t,
about sqrt(d / (2 ln(n k))): all of k malicious users, in one direction, k times that. The square is
k^2 d / log(n k), where Theorem 4.1 has k d / log^2(n d): two users who push one way add up their
distances, not their squares. The same holds for Lemma 4.2, whose O(k) is O(k^2): users who lie
about their vectors reach (2 k)^2 in any protocol. If shufflers take d_i coordinates each, the bound
holds for vectors of those coordinates, and the squares add up over shufflers: their number does not
help where each of them can take a vector of norm 1. It does where no coordinate can be large
(Kashin's representation): see `ikos.accounting.bounds_afnntz24.coefficient_influence`.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ikos._validation import integer, number
from ikos.accounting.bounds_afnntz24.arguments import (
    MAX_DIMENSION,
    MAX_MESSAGES,
    MAX_USERS,
    MOST,
    SAFE,
    checked_budget,
    checked_error,
    users_and_dimension,
)


def _pushed(n: int, d: int, k: float, eps: float, delta: float, a: float) -> float:
    """Return the norm that one user's k messages can add, at least; the best of a grid of z."""
    best = 0.0
    for z in np.linspace(0.01, 0.99, 99):
        chance = (1 - z) ** 2 / (a + (1 - z) ** 2)
        spare = (chance / 2 - delta) * math.exp(-eps) * 2 / (n * k)
        if spare <= 0:
            continue
        t = 1.0
        if d > 1:
            t = math.sqrt(-math.expm1(min(0.0, math.log(spare) * 2 / (d - 1))))
        best = max(best, z / t if t else 0.0)
    return best * (1 - SAFE)


def group_sizes(count: int, groups: int) -> list[int]:
    """Return sizes of groups that are as even as can be, the larger ones first.

    Examples
    --------
    >>> group_sizes(8, 3)
    [3, 3, 2]
    """
    total = integer("count", count, low=1, high=MAX_DIMENSION)
    parts = integer("groups", groups, low=1, high=total)
    return [total // parts + (j < total % parts) for j in range(parts)]


def _group_counts(count: int, groups: int) -> list[tuple[int, int]]:
    """Return the sizes of `group_sizes`, and how many groups have each."""
    size, longer = divmod(count, groups)
    return [(size + 1, longer), (size, groups - longer)] if longer else [(size, groups)]


def poisoning_floor(
    n: int,
    d: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    mse: float | Fraction,
    *,
    messages: int,
    shufflers: int = 1,
    malicious: int = 1,
) -> float:
    """Return a distance by which malicious users can move a sum of messages, at least.

    Parameters
    ----------
    n, d : int
        Users, and coordinates of their vectors.
    epsilon, delta : float
        The guarantee of the view; delta may be 0.
    mse : float
        Bound on the mean squared error of the sum, for all vectors of norm at most 1.
    messages : int
        Of each user, at most; a multiple of ``shufflers``.
    shufflers : int
        Each takes an even part of the coordinates, and so many messages.
    malicious : int
        Users who push in one direction.

    Returns
    -------
    float
        Euclidean norm of what their messages add to an unbiased sum, compared with no messages of
        theirs; rounded down, 0 where nothing is proved. Its square is added to the mean squared
        error.

    Notes
    -----
    AFNNTZ24, Theorems 1.5 and 4.1, with all constants; the proof is at the top of this module. For
    any analyzer that adds up messages without bias. The number of shufflers hardly matters where
    each of them must take vectors of norm 1.

    Examples
    --------
    >>> [round(poisoning_floor(10**6, d, 1, 1e-10, 50 * d, messages=d), 1) for d in (10**4, 10**6)]
    [12.5, 109.1]
    """
    users, dimension = users_and_dimension(n, d)
    eps, small = checked_budget(epsilon, delta)
    error = checked_error(mse)
    parts = integer("shufflers", shufflers, low=1, high=dimension)
    sent = integer("messages", messages, low=1, high=MAX_MESSAGES)
    if sent % parts:
        raise ValueError(f"messages must be a multiple of {parts} shufflers, got {sent}")
    liars = integer("malicious", malicious, low=0, high=MAX_USERS)
    squares = (
        many * _pushed(users, size, sent // parts, eps, small, error / users) ** 2
        for size, many in _group_counts(dimension, parts)
    )
    return liars * math.sqrt(math.fsum(squares))


def coefficient_influence(
    coefficients: int,
    step: float | Fraction,
    *,
    shufflers: int = 1,
    limit: int = 1,
    malicious: int = 1,
) -> float:
    """Return by how much malicious users can move a sum of vectors that are sent by coefficients.

    Parameters
    ----------
    coefficients : int
        Of each vector; a shuffler takes some of them, as even a part as can be.
    step : float
        The difference between the largest and the smallest message about one coefficient, in the
        units of the coefficients.
    shufflers : int
        From 1 to the number of coefficients.
    limit : int
        Messages that a user may send for each coefficient. A shuffler counts its own messages
        alone: for ``m`` coefficients it lets ``limit m`` pass.
    malicious : int
        Users who push in one direction.

    Returns
    -------
    float
        Largest Euclidean norm of what their messages add, compared with the smallest messages (or
        none), if the analyzer maps sums of coefficients back without making them longer (an
        orthonormal or a tight frame with bound 1). Reached where all messages of a shuffler are
        about one coefficient: ``malicious limit step sqrt(sum of m^2)``. Two such attacks, about
        different coefficients, are up to sqrt(2) times as far from each other.

    Notes
    -----
    AFNNTZ24, Theorem 1.5 and Lemma 4.2. With D coefficients in [-C/sqrt(d), C/sqrt(d)] and a
    shuffler for each the distance is 2 C sqrt(D/d) limit: constant. With one shuffler it is sqrt(D)
    times that. The limit is the largest number of messages that an honest user may need, noise
    included.

    Examples
    --------
    >>> [coefficient_influence(64, 2 / 8, shufflers=s) for s in (1, 4, 16, 64)]
    [16.0, 8.0, 4.0, 2.0]
    """
    total = integer("coefficients", coefficients, low=1, high=MAX_DIMENSION)
    parts = integer("shufflers", shufflers, low=1, high=total)
    width = float(number("step", step, above=0, high=MOST))
    each = integer("limit", limit, low=1, high=MAX_MESSAGES)
    liars = integer("malicious", malicious, low=0, high=MAX_USERS)
    squares = sum(many * size * size for size, many in _group_counts(total, parts))
    return liars * each * width * math.sqrt(squares)
