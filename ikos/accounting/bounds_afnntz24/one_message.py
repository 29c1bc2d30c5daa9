"""The error that one message of each user leaves.

What n, k, epsilon, delta, Err and a stand for is said in the package.

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
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ikos._validation import choice
from ikos.accounting.bounds_afnntz24.arguments import SAFE, checked_budget, users_and_dimension


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
    users, dimension = users_and_dimension(n, d)
    eps, small = checked_budget(epsilon, delta)
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
    return float(users * (r**2 * (1 - high)).max() * (1 - SAFE))
