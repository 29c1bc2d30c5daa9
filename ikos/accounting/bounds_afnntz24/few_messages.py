"""How many messages of each user a small error takes.

What n, k, epsilon, delta, Err and a stand for is said in the package.

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
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ikos._validation import choice, integer
from ikos.accounting.bounds_afnntz24.arguments import (
    SAFE,
    checked_budget,
    checked_error,
    users_and_dimension,
)


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
    users, dimension = users_and_dimension(n, d)
    integer("n", n, low=2)
    eps, small = checked_budget(epsilon, delta)
    error = checked_error(mse)
    name = choice("protocol", protocol, ("unbiased", "summation"))
    bound = _unbiased_log_need if name == "unbiased" else _sum_log_need
    need = bound(dimension, eps, small, error / users)
    need -= SAFE * abs(need) + SAFE
    if need <= _log_subsets(users, 1):
        return 1
    low, high = 1, 2
    while _log_subsets(users, high) < need:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _log_subsets(users, middle) >= need else (middle, high)
    return high
