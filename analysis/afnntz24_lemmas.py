"""Lemmas from the proofs of AFNNTZ24's lower bounds: their reduction of the dimension, one message.

AFNNTZ24 is Asi, Feldman, Nelson, Nguyen, Talwar, Zhou, "Private Vector Mean Estimation in the
Shuffle Model: Optimal Rates Require Many Messages", ICML 2024. `analysis.afnntz24_bounds` proves
its theorems in other ways, with constants; the errata of the documentation say why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import integer, number

_MOST = 1 << 53
_MAX_CELLS = 64
_MAX_DIMENSION = 16


# Propositions A.1 and A.3


def reduced_dimension(n: int, epsilon: float | Fraction, constant: float | Fraction = 1) -> float:
    """Return the d' of AFNNTZ24's Propositions A.1 and A.3, n eps^2 / (200 C), a real number.

    They make a protocol for d' coordinates of one for d > 2d' whose error is at most
    ``constant`` d / eps^2, with as many messages: A.1 for sums of messages, A.3 for unbiased ones.

    Examples
    --------
    >>> reduced_dimension(10**6, 1)
    5000.0
    """
    users = integer("n", n, low=1, high=_MOST)
    eps = float(number("epsilon", epsilon, above=0, high=100))
    return users * eps**2 / (200 * float(number("constant", constant, above=0)))


def reduced_error(n: int, d: int, reduced: int, mse: float | Fraction) -> float:
    """Return the bound on the new protocol's error in the proof of Propositions A.1 and A.3.

    ``4 (d'/d) mse + 8 n``: each user's d' coordinates become 2d' signs times 2/sqrt(d'). Those take
    2d' of the d coordinates, to which Lemmas A.2 and A.4 assign even parts of the error (they are
    about other vectors: see the errata of the documentation), and with the inverse of the
    representation the signs alone have a mean squared error of 3 to 4 per user, `sign_error`.

    Parameters
    ----------
    n, d, reduced : int
        Users, dimensions d and d', 2d' < d.
    mse : float or Fraction
        Mean squared error of the sum in d dimensions.

    Examples
    --------
    The second term is far above the error n / 100 up to which Theorem 2.1 has a proof:

    >>> reduced_error(10**6, 10**5, 5000, 10**5)
    8020000.0
    """
    users, size = integer("n", n, low=1, high=_MOST), integer("d", d, low=3, high=_MOST)
    few = integer("reduced", reduced, low=1, high=(size - 1) // 2)
    return 4 * few / size * float(number("mse", mse, low=0)) + 8 * users


def sign_error(frame: ArrayLike, x: ArrayLike) -> float:
    """Return the exact mean squared error of one user's signs, of Propositions A.1 and A.3.

    With w = ``frame`` x, u_i is 2/sqrt(d') or -2/sqrt(d'), with mean w_i, and the error is that of
    ``frame``^T u: sum of (4/d' - w_i^2) |row i|^2. It is from 3 to 4 for unit vectors.

    Parameters
    ----------
    frame : (2d', d') array_like of float
        Orthonormal columns.
    x : (d',) array_like of float
        A vector with all |w_i| at most 2/sqrt(d').

    Examples
    --------
    >>> round(sign_error([[0.6], [0.8]], [1.0]), 4)
    3.4608
    """
    rows = np.asarray(frame, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] != 2 * rows.shape[1]:
        raise ValueError(f"frame must have shape (2d', d'), got {rows.shape}")
    w = rows @ np.asarray(x, dtype=np.float64)
    square = 4 / rows.shape[1]
    if not (w**2 <= square).all():
        raise ValueError(f"x must have coefficients up to {math.sqrt(square):.6g}")
    return float(((square - w**2) * (rows**2).sum(axis=1)).sum())


# Lemmas B.1 and B.2


def posterior_means(prior: ArrayLike, values: ArrayLike, channel: ArrayLike) -> NDArray[np.float64]:
    """Return AFNNTZ24's f of Lemma B.1, the posterior mean E[V | R(V) = u] of each message u.

    With one message per user and independent inputs, no analyzer of the messages has a smaller mean
    squared error than the sum of their posterior means, which are in any convex set that the inputs
    are in. As a function of the messages it is as private as they are.

    Parameters
    ----------
    prior : (k,) array_like of float
        Probabilities of the inputs.
    values : (k, d) array_like of float
        The inputs.
    channel : (k, u) array_like of float
        P[R(v) = u]; each row adds up to 1.

    Returns
    -------
    (u, d) ndarray of float
        0 for a message that is never sent.

    Examples
    --------
    >>> posterior_means([0.5, 0.5], [[0.0], [1.0]], [[0.75, 0.25], [0.25, 0.75]]).tolist()
    [[0.25], [0.75]]
    """
    joint = np.asarray(prior)[:, np.newaxis] * np.asarray(channel)
    sent = joint.sum(axis=0)
    return np.asarray(joint.T @ np.asarray(values) / np.where(sent, sent, 1.0)[:, np.newaxis])


def decoded_error(
    n: int, prior: ArrayLike, values: ArrayLike, channel: ArrayLike, decoded: ArrayLike
) -> float:
    """Return the exact error of a sum of decoded messages, of AFNNTZ24's Lemma B.2.

    n E|f(R(V)) - V|^2 + n (n - 1) |E f(R(V)) - E V|^2 for n independent users. The lemma has the
    first term as a lower bound; it is the error itself for the posterior means of Lemma B.1.

    Parameters
    ----------
    n : int
        Users.
    prior, values, channel
        As for `posterior_means`.
    decoded : (u, d) array_like of float
        The vector f(u) that the analyzer adds for each message u.

    Examples
    --------
    >>> inputs, channel = [[0.0], [1.0]], [[0.75, 0.25], [0.25, 0.75]]
    >>> decoded_error(10, [0.5, 0.5], inputs, channel, [[0.25], [0.75]])
    1.875
    >>> decoded_error(10, [0.5, 0.5], inputs, channel, [[-0.5], [1.5]])  # unbiased
    7.5
    """
    users = integer("n", n, low=1, high=_MOST)
    joint = np.asarray(prior)[:, np.newaxis] * np.asarray(channel)
    away = np.asarray(decoded)[np.newaxis] - np.asarray(values)[:, np.newaxis]
    square = float((joint * (away**2).sum(axis=2)).sum())
    bias = (joint[:, :, np.newaxis] * away).sum(axis=(0, 1))
    return users * square + users * (users - 1) * float(bias @ bias)


# Lemmas B.3 and B.5


def cell_distance_square(cells: int, point: Sequence[int]) -> float:
    """Return the left-hand side of AFNNTZ24's Lemma B.3, with max where min is printed.

    The mean of max(|a - b| - sqrt(d)/(2r), 0)^2 over all r^d points a of a grid of step 1/r in the
    unit cube. The lemma has at least d/2048 for r > 32. For every r >= 3 it is at least
    (d/16) (1 - 2/r - 1/r^2)^2, d/19 for r > 32: |a - b| is at least 1/sqrt(d) times the sum of d
    absolute differences, whose mean is at least d (1 - 1/r^2)/4; then Jensen's inequality.

    Parameters
    ----------
    cells : int
        r, at most 64.
    point : sequence of int
        b by its d <= 16 places on the grid, from 1 to r. The mean is smallest in the middle.

    Examples
    --------
    >>> [round(cell_distance_square(33, [17] * d) / d, 4) for d in (1, 2, 8)]
    [0.0759, 0.0753, 0.0749]
    """
    r = integer("cells", cells, low=1, high=_MAX_CELLS)
    d = integer("the length of point", len(point), low=1, high=_MAX_DIMENSION)
    law = np.ones(1)  # of r^2 |a - b|^2
    for place in point:
        steps = np.arange(1, r + 1) - integer("point", place, low=1, high=r)
        law = np.convolve(law, np.bincount(steps**2) / r)
    away = np.sqrt(np.arange(law.size)) - math.sqrt(d) / 2
    return float((law * np.maximum(away, 0.0) ** 2).sum()) / r**2


def lemma_b5(n: int, epsilon: float | Fraction, delta: float | Fraction) -> tuple[float, float]:
    """Return AFNNTZ24's Lemma B.5: 1 - e^-eps/2, and (1/2 - delta)/n.

    If n shuffled messages are (eps, delta)-private, delta < 1/2, then for all inputs a and b either
    R(b) is at b with probability below the first number, or R(a) is there with at least the second.
    For every probability p of R(b) the same proof has (1 - delta - e^eps (1 - p))/n, from which
    `analysis.afnntz24_bounds.single_message_floor` follows.

    Examples
    --------
    >>> lemma_b5(1000, 0, 0.25)
    (0.5, 0.00025)
    """
    users = integer("n", n, low=1, high=_MOST)
    eps = float(number("epsilon", epsilon, low=0, high=100))
    small = float(number("delta", delta, low=0, below=Fraction(1, 2)))
    return 1 - math.exp(-eps) / 2, (0.5 - small) / users
