"""What no protocol for sums of vectors can do, and the published rules of one that does.

AFNNTZ24 is Asi, Feldman, Nelson, Nguyen, Talwar, Zhou, "Private Vector Mean Estimation in the
Shuffle Model: Optimal Rates Require Many Messages", ICML 2024. Its theorems are stated up to
constants. What stands here has all of them, and is proved below: some of the printed proofs do not
hold as they stand. Throughout, n users send k messages each through one shuffler, the view is
(epsilon, delta)-private under replacement of one user's vector, Err bounds the mean squared error
of the estimated sum for all vectors of Euclidean norm at most 1, and a = Err / n.

*Few messages: sums of messages.* The analyzer adds up the messages, and R(u) is the sum of one
user's. If all users hold u, then Err >= n E |R(u) - u|^2 + n (n - 1) |E R(u) - u|^2, and so
E |R(u) - u|^2 <= a for every u: no symmetrization is needed. Let S be the set of sums of k of the
n k messages; there are at most N = C(n k, k). Let u be uniform in the unit ball of R^d, and compare
(u, w, ..., w) with (w, w, ..., w) for a fixed w. In the first case R(u) is in S, so that some point
of S is within r of u with probability at least 1 - a / r^2. In the second S does not depend on u,
and its points are the centres of at most N balls with at most N r^d of the unit ball's volume. So

    N r^d >= e^-epsilon (1 - delta - a / r^2),

and with r^2 = a (d + 2) / (d (1 - delta)) and N <= (e n)^k this bounds k. (The paper
takes a packing, for which distances must be halved, and squared ones where Markov's inequality is
used.) The bound ends at a = 1, Err = n, and there is none beyond Err = n^2: sending the zero vector
has this error, so that the stated bound of order min(n epsilon^2, d) / log n cannot hold for sums
of messages with bias if d > n^2 epsilon^2.

*Few messages: unbiased estimates.* Any analyzer, E estimate = sum. Let the dummies be uniform on
the sphere and W(u) the mean of the estimate given the messages of one user with u, over dummies of
the n - 1 others. Then E W(u) = u, and the parts of the error that depend on one user each are
uncorrelated, so that E |W(u) - u|^2 <= a for uniform u (AFNNTZ24, Proposition 2.4; it is enough
that Err bounds the error for uniform vectors). Let V be a random subspace of dimension m + 1 that
contains u, Z the part of W along u and Y the squared norm of the rest of its projection to V. With
b = E |W - Z u|^2 we have E Z = 1, E Z^2 <= 1 + a - b and E Y = b m / (d - 1). Let G be the event
that Z > 0 and sqrt(Y) <= t Z. Outside of it Z <= sqrt(Y) / t, and so

    1 - sqrt(b m / (d - 1)) / t <= E Z 1[G] <= sqrt((1 + a - b) P[G]),
    P[G] >= (1 - sqrt(a m / (d - 1)) / t)^2 / (1 + a).

G says that u and the projection of W(u) make an angle of at most arctan t. For messages that do not
depend on u each of the N candidates has this property with probability at most t^m (1 + t^2)^(-m/2)
/ 2, the measure of a cap, as I_x(m/2, 1/2) <= x^(m/2). So for every m < d and t

    N (t^2 / (1 + t^2))^(m/2) / 2 >= e^-epsilon (P[G] - delta).

This is of order min(n epsilon^2, d) / log n for Err = O(d / epsilon^2), also where d exceeds
n epsilon^2 (if delta is small beside n epsilon^2 / d). The paper's reduction to fewer dimensions
needs vectors whose coordinates are all 1/sqrt(d), but has longer ones and zeros.

*One message.* Users hold independent uniform vectors of a domain D. Whoever sees who sent what errs
by at least n E |f(R(V)) - V|^2, f the posterior mean, so let R stand for f(R). For a radius r let
p(b) = P[|R(b) - b| <= r]. Compare (b, a, ..., a) with (a, ..., a): a message near b is there with
probability at least p(b) in the first case, and at most n P[|R(a) - b| <= r] in the second, so that

    P[|R(a) - b| <= r] >= x(p(b)) / n,
    x(p) = max(e^-epsilon (p - delta), 1 - delta - e^epsilon (1 - p)),

for all a, b; the second part is the same inequality for the complements. On the one hand
E |R(b) - b|^2 >= r^2 (1 - p(b)). On the other, integrating (|b - a| - r)_+^2 <= |z - a|^2, for z
within r of b, over b and the law of z = R(a),

    E |R(a) - a|^2 vol(ball of radius r) >= (1/n) integral over D of x(p(b)) (|b - a| - r)_+^2 db.

The mean of (|b - a| - r)_+^2 over a is convex in b and symmetric, so least in the middle of D: G.
As x is convex, with p the mean of p(b),

    MSE >= n max over r of min over p of max(r^2 (1 - p), x(p) G vol(D) / (n vol(ball))).

For a box of width 1 that is of order d n^(d/(d+2)), for the unit ball of order n^(d/(d+2)). The
paper's Theorem 1.4 says d n^(d/(d+2)) of the unit ball, but its proof is about [0, 1]^d, whose
diameter is sqrt(d); and whoever leaves a cell of side 1/r has moved by 1/(2 r), not by sqrt(d)
times that (Lemma B.4). Grid points inside the ball alone, (C/r)^d of them, have n^(d/(d+2)) up to a
constant that does not grow with d, so that the statement cannot be right for the ball.

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
(Kashin's representation): see `coefficient_influence`.
"""

from __future__ import annotations

import math
from fractions import Fraction

import gmpy2
import numpy as np
from numpy.typing import NDArray

from ikos._validation import choice, down, integer, number, quote
from ikos.accounting.bbgn19 import closed_form_gamma

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

MAX_DIMENSION = 1 << 40
MAX_USERS = 10**12
MAX_MESSAGES = 1 << 60

_LEAST, _MOST = 1e-100, 1e100
"""Of errors and steps: their squares are doubles."""

_SAFE = 1e-9
"""What logarithms and bounds are moved by to the safe side: far above the errors of doubles."""


def _budget(epsilon: object, delta: object) -> tuple[float, float]:
    """Check and return a budget; a delta of 0 is allowed."""
    eps = number("epsilon", epsilon, above=0, high=100)
    small = float(number("delta", delta, low=0, below=1))
    if small == 1:
        raise ValueError(f"delta must be below 1 by a double, got {quote(delta)}")
    return float(eps), small


def _error(mse: object) -> float:
    """Check and return a mean squared error; the bounds fall with it, so that it is rounded up."""
    return max(_LEAST, float(number("mse", mse, above=0, high=_MOST)))


def _users_and_dimension(n: object, d: object) -> tuple[int, int]:
    return (
        integer("n", n, low=1, high=MAX_USERS),
        integer("d", d, low=1, high=MAX_DIMENSION),
    )


# Few messages


def _log_subsets(n: int, k: int) -> float:
    """Return an upper bound of ln C(n k, k), n >= 2, by Stirling's formula; it grows with k."""
    entropy = math.log(n) + (n - 1) * math.log1p(1 / (n - 1))
    return k * entropy - math.log(2 * math.pi * k * (n - 1) / n) / 2


def _sum_log_need(d: int, epsilon: float, delta: float, a: float) -> float:
    """Return a lower bound of ln C(n k, k) for sums of messages; the module's docstring."""
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

    Parameters
    ----------
    n, d : int
        Users, at least 2, and coordinates of their vectors.
    epsilon, delta : float
        The guarantee of the view of one shuffler; delta may be 0.
    mse : float
        Bound on the mean squared error of the sum, for all vectors of norm at most 1.
    protocol : {"unbiased", "summation"}
        Any unbiased analyzer; or one that adds up the messages, with bias or without.

    Returns
    -------
    int
        k: with fewer messages of each user (at most so many; a missing one counts as an empty
        message) the error is impossible. 1 where nothing is proved. Rounded down in all steps.

    Notes
    -----
    AFNNTZ24, Theorems 1.2, 2.1 and 2.5, with all constants; the proof is at the top of this module.

    Examples
    --------
    >>> gaussian = 2 * 1000 * 25  # variance 2 ln(1.25/delta) for each coordinate, about
    >>> [least_messages(10**k, 1000, 1, 1e-10, gaussian) for k in (5, 6, 7)]
    [43, 102, 155]
    >>> least_messages(10**6, 1000, 1, 1e-10, gaussian, protocol="summation")
    101
    """
    users, dimension = _users_and_dimension(n, d)
    integer("n", n, low=2)
    eps, small = _budget(epsilon, delta)
    error = _error(mse)
    name = choice("protocol", protocol, ("unbiased", "summation"))
    bound = _unbiased_log_need if name == "unbiased" else _sum_log_need
    need = bound(dimension, eps, small, error / users)
    need -= _SAFE * abs(need) + _SAFE
    if need <= _log_subsets(users, 1):
        return 1
    low, high = 1, 2
    while _log_subsets(users, high) < need:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _log_subsets(users, middle) >= need else (middle, high)
    return high


# One message


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

    Parameters
    ----------
    n, d : int
        Users, and coordinates of their vectors.
    epsilon, delta : float
        The guarantee of the shuffled messages; delta may be 0.
    shape : {"ball", "box"}
        Where the vectors lie: a ball of radius 1, or a box of width 1 in each coordinate.

    Returns
    -------
    float
        Of the sum, for the worst vectors, any analyzer, with bias or without; rounded down. Times
        the squared radius of a ball, or the squared width of a box, for others.

    Notes
    -----
    AFNNTZ24, Theorem 1.4, with all constants; the proof is at the top of this module. Of order
    n^(d/(d+2)) for a ball and d n^(d/(d+2)) for a box.

    Examples
    --------
    >>> [round(single_message_floor(10**6, d, 1, 1e-10, shape="box")) for d in (1, 2, 4, 8)]
    [3, 57, 1369, 19580]
    """
    users, dimension = _users_and_dimension(n, d)
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
    users, dimension = _users_and_dimension(n, d)
    eps, small = _budget(epsilon, delta)
    error = _error(mse)
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
    width = float(number("step", step, above=0, high=_MOST))
    each = integer("limit", limit, low=1, high=MAX_MESSAGES)
    liars = integer("malicious", malicious, low=0, high=MAX_USERS)
    squares = sum(many * size * size for size, many in _group_counts(total, parts))
    return liars * each * width * math.sqrt(squares)


# Limits of the rate


def counter_bits(n: int, messages: int) -> int:
    """Return the bits that tell how many messages each of n users has sent to one shuffler.

    Parameters
    ----------
    n : int
        Users.
    messages : int
        Which each may send, at most B.

    Returns
    -------
    int
        ``ceil(n log2(B + 1))``: (B + 1)^n states, and no storage can do with less.

    Notes
    -----
    AFNNTZ24, Section 1.

    Examples
    --------
    A million messages of each of a hundred million users, in megabytes:

    >>> round(counter_bits(10**8, 10**6) / 8e6)
    249
    """
    users = integer("n", n, low=1, high=MAX_USERS)
    each = integer("messages", messages, low=1, high=MAX_DIMENSION)
    if (each + 1) & each == 0:
        return users * each.bit_length()
    with gmpy2.context(precision=200):
        bits: int = int(gmpy2.ceil(users * gmpy2.log2(each + 1)))
    return bits


def token_bits(n: int, shufflers: int) -> int:
    """Return the bits that tell which of several shufflers each of n users has sent a message to.

    Parameters
    ----------
    n, shufflers : int
        Users, and shufflers that take one message of each.

    Notes
    -----
    ``n B`` for B shufflers (AFNNTZ24, Section 1): 2^(n B) states.

    Examples
    --------
    A million shufflers and a hundred million users, in terabytes:

    >>> token_bits(10**8, 10**6) / 8e12
    12.5
    """
    users = integer("n", n, low=1, high=MAX_USERS)
    return users * integer("shufflers", shufflers, low=1, high=MAX_DIMENSION)


# The published rules of the single-message protocol

_MANY = 1 << 12
"""Logarithm of so many points that the rule asks for more than a double holds."""


def published_gamma(
    n: int, d: int, epsilon: float | Fraction, delta: float | Fraction, levels: int
) -> float:
    """Return the probability of a random point that AFNNTZ24's Lemma 3.1 asks for; may exceed 1.

    ``max(14 k ln(2/delta)/((n-1) epsilon^2), 27 k/((n-1) epsilon))`` for k = (levels + 1)^d points,
    BBGN19's Theorem 3.1, which needs epsilon at most 1. Infinite where k is far beyond doubles.

    Examples
    --------
    >>> round(published_gamma(10**6, 2, 1, 1e-10, 5), 4)
    0.012
    """
    users, dimension = _users_and_dimension(n, d)
    base = integer("levels", levels, low=1) + 1
    if dimension * (base.bit_length() - 1) > _MANY:
        closed_form_gamma(epsilon, delta, users, 2)  # its checks
        return math.inf
    return closed_form_gamma(epsilon, delta, users, base**dimension)


def published_levels(n: int, d: int, epsilon: float | Fraction, delta: float | Fraction) -> int:
    """Return the levels r of AFNNTZ24's Theorem 1.3, (n/c)^(1/(d+2)) with c = 14 ln(2/delta)/eps^2.

    The paper gives c up to a constant; this is the one for which gamma = c k / (n - 1). Rounded
    down, at least 1. Where n/c is below 2^d no levels are private by `published_gamma`: the theorem
    is stated for all n and d, but its protocol needs d < log2(n/c).

    Examples
    --------
    >>> [published_levels(10**6, d, 1, 1e-10) for d in (1, 2, 4, 8)]
    [14, 7, 3, 2]
    """
    users = integer("n", n, low=2, high=MAX_USERS)
    dimension = integer("d", d, low=1, high=MAX_DIMENSION)
    eps = down(number("epsilon", epsilon, above=0, high=1))
    small = down(number("delta", delta, above=0, below=1))
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
