"""What no protocol for sums of vectors can do, and the published rules of one that does.

AFNNTZ24 is Asi, Feldman, Nelson, Nguyen, Talwar, Zhou, "Private Vector Mean Estimation in the
Shuffle Model: Optimal Rates Require Many Messages", ICML 2024. It states its bounds up to
constants, and some of its proofs do not hold as printed. Here every constant is explicit and
proved (:ref:`proof-bounds`). Bounds of errors and messages are rounded down.
"""

from __future__ import annotations

import math
from fractions import Fraction

import gmpy2
import numpy as np
from numpy.typing import NDArray

from ikos._validation import choice, integer, number, quote, round_down
from ikos.accounting.scm22 import closed_gamma
from ikos.numeric.search import bisect_integers

__all__ = [
    "coefficient_influence",
    "counter_bits",
    "group_sizes",
    "least_messages",
    "poisoning_floor",
    "published_error",
    "published_gamma",
    "published_levels",
    "single_message_floor",
    "token_bits",
]

_MAX_DIMENSION = 1 << 40
_MAX_USERS = 10**12
_MAX_MESSAGES = 1 << 60

_LEAST, _MOST = 1e-100, 1e100
"""Of errors and steps: their squares are doubles."""

_SAFE = 1e-9
"""What logarithms and bounds are moved to the safe side: far above the errors of doubles."""

_MOST_LOG_POINTS = 1 << 12
"""From this logarithm of the points on, the published rule asks for more than a double holds."""


def _budget(epsilon: object, delta: object) -> tuple[float, float]:
    """Check and return a budget; a delta of 0 is allowed."""
    eps = number("epsilon", epsilon, above=0, high=100)
    small = float(number("delta", delta, low=0, below=1))
    if small == 1:
        raise ValueError(f"delta must be below 1 by a double, got {quote(delta)}")
    return float(eps), small


def _error(mse: object) -> float:
    """Check and return a mean squared error, rounded up: the bounds fall with it."""
    return max(_LEAST, float(number("mse", mse, above=0, high=_MOST)))


def _sizes(n: object, d: object) -> tuple[int, int]:
    """Check and return the number of users and the dimension of their vectors."""
    return (
        integer("n", n, low=1, high=_MAX_USERS),
        integer("d", d, low=1, high=_MAX_DIMENSION),
    )


# Few messages


def _log_subsets(n: int, k: int) -> float:
    """Return an upper bound of ln C(n k, k), n >= 2, by Stirling's formula; it grows with k."""
    entropy = math.log(n) + (n - 1) * math.log1p(1 / (n - 1))
    return k * entropy - math.log(2 * math.pi * k * (n - 1) / n) / 2


def _sum_log_need(d: int, epsilon: float, delta: float, a: float) -> float:
    """Return a lower bound of ln C(n k, k) for sums of messages."""
    share = 2 * (1 - delta) / (d + 2)
    return -epsilon + math.log(share) + d / 2 * math.log(d * (1 - delta) / (a * (d + 2)))


def _unbiased_log_need(d: int, epsilon: float, delta: float, a: float) -> float:
    """Return a lower bound of ln C(n k, k) for unbiased estimates, the best of a grid."""
    if d == 1:
        return -math.inf
    m = np.unique(np.geomspace(1, d - 1, 400).round())[:, np.newaxis]
    start = np.sqrt(a * m / (d - 1))
    part = 1 / (1 + np.exp(np.linspace(-12, 12, 481)))  # of start in t
    t = start / part
    chance = (1 - part) ** 2 / (1 + a) - delta
    with np.errstate(divide="ignore", invalid="ignore"):
        cap = m / 2 * np.log1p(1 / t**2) + math.log(2)
        need = np.where(chance > 0, np.log(chance) + cap, -math.inf)
    return float(need.max()) - epsilon


def least_messages(
    n: int,
    d: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    mse: float | Fraction,
    *,
    protocol: str = "unbiased",
) -> int:
    """Return the least number of messages per user for which an error is not proved impossible.

    AFNNTZ24, Theorems 1.2, 2.1 and 2.5, with all constants (:ref:`proof-bounds`).

    Parameters
    ----------
    n, d : int
        Users, at least 2, and the dimension of their vectors.
    epsilon, delta : float
        The guarantee of the view of one shuffler; delta may be 0.
    mse : float
        Bound on the mean squared error of the sum, for all vectors of norm at most 1.
    protocol : {"unbiased", "summation"}
        Any unbiased analyzer, or one that adds up the messages, biased or not.

    Returns
    -------
    int
        k: with at most k - 1 messages per user the error is impossible. 1 where nothing is
        proved.

    Examples
    --------
    >>> gaussian = 2 * 1000 * 25  # variance 2 ln(1.25/delta) for each coordinate, about
    >>> [least_messages(10**k, 1000, 1, 1e-10, gaussian) for k in (5, 6, 7)]
    [43, 102, 155]
    >>> least_messages(10**6, 1000, 1, 1e-10, gaussian, protocol="summation")
    101
    """
    users, dimension = _sizes(n, d)
    integer("n", n, low=2)
    eps, small = _budget(epsilon, delta)
    name = choice("protocol", protocol, ("unbiased", "summation"))
    bound = _unbiased_log_need if name == "unbiased" else _sum_log_need
    need = bound(dimension, eps, small, _error(mse) / users)
    need -= _SAFE * abs(need) + _SAFE
    if need <= _log_subsets(users, 1):
        return 1
    high = 2
    while _log_subsets(users, high) < need:
        high *= 2
    return bisect_integers(lambda k: _log_subsets(users, k) >= need, high, high // 2)


# One message


@np.errstate(under="ignore")
def _ball_moment(r: NDArray[np.float64], d: int) -> NDArray[np.float64]:
    """Return E (|a| - r)_+^2 for a uniform in the unit ball."""
    inner = np.minimum(r, 1.0)
    found = (
        d / (d + 2) * (1 - inner ** (d + 2))
        - 2 * inner * d / (d + 1) * (1 - inner ** (d + 1))
        + inner**2 * (1 - inner**d)
    )
    return np.asarray(np.maximum(found, 0.0))


def _box_moment(r: NDArray[np.float64], d: int) -> NDArray[np.float64]:
    """Return a lower bound of E (|a - middle| - r)_+^2 for a uniform in the unit box.

    E X >= (E X^2)^(3/2) / (E X^4)^(1/2) by Hoelder's inequality, and then Jensen's.
    """
    fourth = d / 80 + d * (d - 1) / 144
    distance = (d / 12) ** 1.5 / math.sqrt(fourth)
    return np.asarray(np.maximum(distance - r, 0.0) ** 2)


def single_message_floor(
    n: int,
    d: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    *,
    shape: str = "ball",
) -> float:
    """Return a mean squared error that no protocol with one message per user is below.

    AFNNTZ24, Theorem 1.4, with all constants (:ref:`proof-bounds`): of order n^(d/(d+2)) for a
    ball and d n^(d/(d+2)) for a box.

    Parameters
    ----------
    n, d : int
        Users, and the dimension of their vectors.
    epsilon, delta : float
        The guarantee of the shuffled messages; delta may be 0.
    shape : {"ball", "box"}
        Where the vectors lie: a ball of radius 1, or a box of width 1 in each coordinate.

    Returns
    -------
    float
        Of the sum, for the worst vectors and any analyzer, biased or not. Scale it by the
        squared radius of another ball, or the squared width of another box.

    Examples
    --------
    >>> [round(single_message_floor(10**6, d, 1, 1e-10, shape="box")) for d in (1, 2, 4, 8)]
    [3, 57, 1369, 19580]
    """
    users, dimension = _sizes(n, d)
    eps, small = _budget(epsilon, delta)
    if choice("shape", shape, ("ball", "box")) == "ball":
        r = np.geomspace(1e-7, 1.0, 4001)
        moment, log_balls = _ball_moment(r, dimension), -dimension * np.log(r)
    else:
        r = np.geomspace(1e-7, 1.0, 4001) * math.sqrt(dimension)
        log_ball = dimension / 2 * math.log(math.pi) - math.lgamma(dimension / 2 + 1)
        moment, log_balls = _box_moment(r, dimension), -dimension * np.log(r) - log_ball
    far = moment * np.exp(np.minimum(log_balls - math.log(users), 600.0))
    low, high = np.zeros_like(r), np.ones_like(r)
    for _ in range(60):  # p, between where leaving the ball costs more and where staying does
        p = (low + high) / 2
        x = np.maximum(math.exp(-eps) * (p - small), 1 - small - math.exp(eps) * (1 - p))
        staying = far * np.maximum(x, 0.0) > r**2 * (1 - p)
        low, high = np.where(staying, low, p), np.where(staying, p, high)
    # at a larger p than the best one for the protocol the first of the two is below both
    return float(users * (r**2 * (1 - high)).max() * (1 - _SAFE))


# Malicious users


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
    return best * (1 - _SAFE)


def group_sizes(count: int, groups: int) -> list[int]:
    """Return sizes of groups that are as even as can be, the larger ones first.

    Examples
    --------
    >>> group_sizes(8, 3)
    [3, 3, 2]
    """
    total = integer("count", count, low=1, high=_MAX_DIMENSION)
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

    AFNNTZ24, Theorems 1.5 and 4.1, with all constants (:ref:`proof-bounds`), for any analyzer
    that adds up messages without bias.

    Parameters
    ----------
    n, d, epsilon, delta, mse
        As for `least_messages`.
    messages : int
        Of each user, at most; a multiple of ``shufflers``.
    shufflers : int
        Each takes an even part of the coordinates and of the messages.
    malicious : int
        Users who push in one direction.

    Returns
    -------
    float
        Euclidean norm of what their messages add to an unbiased sum, compared with sending
        nothing; 0 where nothing is proved. Its square adds to the mean squared error.

    Examples
    --------
    >>> [round(poisoning_floor(10**6, d, 1, 1e-10, 50 * d, messages=d), 1) for d in (10**4, 10**6)]
    [12.5, 109.1]
    """
    users, dimension = _sizes(n, d)
    eps, small = _budget(epsilon, delta)
    error = _error(mse)
    parts = integer("shufflers", shufflers, low=1, high=dimension)
    sent = integer("messages", messages, low=1, high=_MAX_MESSAGES)
    if sent % parts:
        raise ValueError(f"messages must be a multiple of {parts} shufflers, got {sent}")
    liars = integer("malicious", malicious, low=0, high=_MAX_USERS)
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
    """Return how far malicious users can move a sum of vectors that are sent by coefficients.

    AFNNTZ24, Theorem 1.5 and Lemma 4.2. With D coefficients in [-C/sqrt(d), C/sqrt(d)] and one
    shuffler for each, the distance is 2 C sqrt(D/d) limit, a constant; with a single shuffler it
    is sqrt(D) times that.

    Parameters
    ----------
    coefficients : int
        Of each vector, spread over the shufflers as evenly as can be.
    step : float
        The largest message about a coefficient less the smallest, in units of the coefficients.
    shufflers : int
        From 1 to the number of coefficients.
    limit : int
        Messages that a user may send for each coefficient: as many as an honest one may need,
        noise included. A shuffler of ``m`` coefficients lets ``limit m`` pass.
    malicious : int
        Users who push in one direction.

    Returns
    -------
    float
        ``malicious limit step sqrt(sum of m^2)``: the largest Euclidean norm that their messages
        add, compared with the smallest messages (or none), if the analyzer's map from
        coefficients to vectors makes nothing longer. Reached where all messages of a shuffler
        are about one coefficient. Two such attacks are up to sqrt(2) times as far apart.

    Examples
    --------
    >>> [coefficient_influence(64, 2 / 8, shufflers=s) for s in (1, 4, 16, 64)]
    [16.0, 8.0, 4.0, 2.0]
    """
    total = integer("coefficients", coefficients, low=1, high=_MAX_DIMENSION)
    parts = integer("shufflers", shufflers, low=1, high=total)
    width = float(number("step", step, above=0, high=_MOST))
    each = integer("limit", limit, low=1, high=_MAX_MESSAGES)
    liars = integer("malicious", malicious, low=0, high=_MAX_USERS)
    squares = sum(many * size * size for size, many in _group_counts(total, parts))
    return liars * each * width * math.sqrt(squares)


# The published rules of the single-message protocol


def published_gamma(
    n: int, d: int, epsilon: float | Fraction, delta: float | Fraction, levels: int
) -> float:
    """Return the probability of a random point that AFNNTZ24's Lemma 3.1 asks for; may exceed 1.

    That of BBGN19, Theorem 3.1, for (levels + 1)^d points, which needs epsilon at most 1. Infinite
    where the number of points is far beyond doubles.

    Examples
    --------
    >>> round(published_gamma(10**6, 2, 1, 1e-10, 5), 4)
    0.012
    """
    users, dimension = _sizes(n, d)
    integer("n", n, low=2)
    eps = round_down(number("epsilon", epsilon, above=0, high=1))
    small = round_down(number("delta", delta, above=0, below=1))
    base = integer("levels", levels, low=1) + 1
    if dimension * (base.bit_length() - 1) > _MOST_LOG_POINTS:
        return math.inf
    return closed_gamma(eps, small, users, base**dimension) * (1 + 1e-12)


def published_levels(n: int, d: int, epsilon: float | Fraction, delta: float | Fraction) -> int:
    """Return the levels r of AFNNTZ24's Theorem 1.3, (n/c)^(1/(d+2)) with c = 14 ln(2/delta)/eps^2.

    Rounded down, at least 1. The paper gives c up to a constant; here gamma is c k / (n - 1). Where
    n/c is below 2^d no levels are private by `published_gamma`: the theorem is stated for all d,
    but its protocol needs d < log2(n/c).

    Examples
    --------
    >>> [published_levels(10**6, d, 1, 1e-10) for d in (1, 2, 4, 8)]
    [14, 7, 3, 2]
    """
    users = integer("n", n, low=2, high=_MAX_USERS)
    dimension = integer("d", d, low=1, high=_MAX_DIMENSION)
    eps = round_down(number("epsilon", epsilon, above=0, high=1))
    small = round_down(number("delta", delta, above=0, below=1))
    c = 14 * math.log(2 / small) / eps**2
    steps: int = math.floor((users / c) ** (1 / (dimension + 2)))
    return max(1, steps)


def published_error(
    n: int, d: int, epsilon: float | Fraction, delta: float | Fraction, levels: int | None = None
) -> float:
    """Return the bound on the mean squared error in the proof of AFNNTZ24's Theorem 1.3.

    ``n d / (1 - gamma)^2 (1/(4 r^2) + gamma/2)``, in units of the squared width of the box,
    with r = `published_levels` by default; infinite where gamma is 1 or more.

    Examples
    --------
    >>> round(published_error(10**6, 2, 1, 1e-10)), published_error(1000, 8, 1, 1e-10)
    (32837, inf)
    """
    r = published_levels(n, d, epsilon, delta) if levels is None else levels
    gamma = published_gamma(n, d, epsilon, delta, r)
    if gamma >= 1:
        return math.inf
    return n * d / (1 - gamma) ** 2 * (1 / (4 * r * r) + gamma / 2)


# Rate limits


def counter_bits(n: int, messages: int) -> int:
    """Return the bits that count how many messages each of n users has sent to one shuffler.

    ``ceil(n log2(B + 1))`` for at most B ``messages`` each: there are (B + 1)^n states
    (AFNNTZ24, Section 1).

    Examples
    --------
    A million messages of each of a hundred million users, in megabytes:

    >>> round(counter_bits(10**8, 10**6) / 8e6)
    249
    """
    users = integer("n", n, low=1, high=_MAX_USERS)
    each = integer("messages", messages, low=1, high=_MAX_DIMENSION)
    if (each + 1) & each == 0:
        return users * each.bit_length()
    with gmpy2.context(precision=200):
        bits: int = int(gmpy2.ceil(users * gmpy2.log2(each + 1)))
    return bits


def token_bits(n: int, shufflers: int) -> int:
    """Return the bits that tell which shufflers, one message each, n users have sent to: n B.

    AFNNTZ24, Section 1.

    Examples
    --------
    A million shufflers and a hundred million users, in terabytes:

    >>> token_bits(10**8, 10**6) / 8e12
    12.5
    """
    users = integer("n", n, low=1, high=_MAX_USERS)
    return users * integer("shufflers", shufflers, low=1, high=_MAX_DIMENSION)
