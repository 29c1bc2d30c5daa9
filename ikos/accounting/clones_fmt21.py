"""Amplification by shuffling for any locally private messages, by clones.

Another user's message is, with probability e^-e0, a clone of the one to be hidden. The multiset of
all messages is then a function of the numbers of clones of either kind, whose divergence is
computed exactly (:ref:`proof-clones`). The blanket's is smaller where it knows the randomizer.

Feldman, McMillan, Talwar, *Hiding Among the Clones: A Simple and Nearly Optimal Analysis of Privacy
Amplification by Shuffling*, FOCS 2021 (FMT21), Theorem 3.1 and its numerical bound.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import scipy
from scipy.special import betainc

from ikos._validation import integer, number
from ikos.accounting.blanket import MAX_USERS, SLACK, reach_down, reach_up
from ikos.accounting.solve import bisect

_FIRST_TAIL = 1e-22
_MAX_LOCAL = 60.0


def clones_delta(epsilon: float | Fraction, n: int, local_epsilon: float | Fraction) -> float:
    """Return a delta for which n shuffled messages are together (epsilon, delta)-private.

    FMT21's bound with the divergence computed exactly, rounded up.

    Parameters
    ----------
    epsilon : float
        At least 0.
    n : int
        Number of users who each send one ``local_epsilon``-private message, up to 10^9. Their
        randomizers may differ, as long as the probabilities of every output, for all users and
        values, are within a factor e^local_epsilon of each other.
    local_epsilon : float
        Of one message by itself, positive and at most 60.

    Examples
    --------
    >>> clones_delta(0.5, 10**5, 4.0) < 1e-8  # each message is 4-private, all of them 0.5
    True
    """
    eps = float(number("epsilon", epsilon, low=0))
    users = integer("n", n, low=1, high=MAX_USERS)
    local = float(number("local_epsilon", local_epsilon, above=0, high=_MAX_LOCAL))
    if eps >= local:
        return 0.0
    tail = _FIRST_TAIL
    while True:
        found = _divergence(eps, users, local, tail)
        if 2 * tail <= 1e-9 * found or tail < 1e-290:
            return min(1.0, (found + 2 * tail) * (1 + SLACK))
        tail = max(tail * tail, 1e-300)


def _divergence(eps: float, n: int, local: float, tail: float) -> float:
    """Return the divergence of (A, B), leaving out values of C of total probability ``tail``."""
    odds, p, q = math.exp(eps), 1 / (1 + math.exp(-local)), 1 / (1 + math.exp(local))
    chance = math.exp(-local)
    mean = (n - 1) * chance
    wanted = -math.log(tail / 2)
    low = math.floor(mean - reach_down(mean, wanted)) - 1
    high = math.ceil(mean + reach_up(mean, wanted)) + 1
    c = np.arange(max(low, 0), min(high, n - 1) + 1, dtype=np.float64)
    t = c + 1
    # Given A + B = t: E[(gain A - loss B)_+] 2 / t for A ~ Bin(t, 1/2), a partial expectation
    gain, loss = p - odds * q, odds * p - q
    edge = t * loss / (gain + loss)
    r = np.floor(edge) + 1
    inside = np.minimum(r, t)
    upper = np.where(r > t, 0.0, betainc(inside, t - inside + 1, 0.5))
    at = np.where(r > t, 0.0, scipy.stats.binom.pmf(inside, t, 0.5))
    beyond = r / 2 * at - (edge - t / 2) * upper  # E[(A - edge)_+], centred at t / 2
    weights = scipy.stats.binom.pmf(c, n - 1, chance)
    return float(np.dot(weights, (gain + loss) * 2 / t * np.maximum(beyond, 0)))


def clones_local_epsilon(epsilon: float | Fraction, delta: float | Fraction, n: int) -> float:
    """Return how private each message must be for all of them to be (epsilon, delta)-private.

    A local epsilon for which `clones_delta` is at most delta, at least epsilon itself and within a
    millionth of the largest that the search finds.

    Parameters
    ----------
    epsilon, delta : float
        The joint guarantee, epsilon positive, delta in (0, 1).
    n : int
        As for `clones_delta`.

    Examples
    --------
    >>> round(clones_local_epsilon(1.0, 1e-12, 10**6), 2)
    8.49
    """
    eps = number("epsilon", epsilon, above=0, high=_MAX_LOCAL)
    small = float(number("delta", delta, above=0, below=1))
    return bisect(lambda local: clones_delta(eps, n, local) <= small, float(eps), _MAX_LOCAL)
