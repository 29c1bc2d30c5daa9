"""Amplification by shuffling for any local randomizer, from counts of labels of messages.

n users send one eps0-private message each. Whatever the randomizer, the view is a function of
labels: each other message has one with probability 2/(e^eps0 + 1), by a fair coin, and the user's
message reveals the value like randomized response of odds e^eps0. That is the reduction of FMT21
(``analysis/clones_fmt21.py``) with about twice as many labels. A third label helps further if the
messages for any two values have a smaller total variation distance than eps0 allows.

Proofs, of the rounding too: :ref:`proof-amplification`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import gmpy2
import numpy as np
from gmpy2 import mpfr
from numpy.typing import NDArray

from ikos._validation import MAX_PROTOCOL_USERS, integer, number, round_down, round_up
from ikos.accounting.blanket import SLACK
from ikos.numeric.binomial import binomial_window, log_pmf
from ikos.numeric.rounding import DOWN, UP, float_down, float_up, rational, rounding
from ikos.numeric.search import bisect

MAX_COUNTED = 10**6  # most users if all numbers of labels are enumerated
_LEAST, _MOST = 1e-100, 60.0  # of a local epsilon
_LEAST_FOUND = 1e-9  # of an epsilon
_MARGIN = Fraction(1, 1 << 48)  # relative, of a slope: more than the roundings of an edge
_STEP = 2e-4  # a block of numbers of labels enlarges delta by at most about this fraction,
_BLOCKS = 10**4  # unless there were more blocks than this
_PART = 1 << 20  # probabilities at a time
_TINY = 1e-290  # larger than any quantity that underflows


@dataclass(frozen=True)
class Labels:
    """The divergence of the labels' counts.

    It is scale E[(slope S - lean G - rest (n - S) - B)_+ / S], B ~ Bin(S, 1/2). Each of the n - 1
    other messages is one of the S - 1 with the first two labels with probability ``share``, or one
    of the G with a third one with ``third``.
    """

    scale: Fraction
    share: Fraction
    slope: Fraction
    third: Fraction = Fraction(0)
    lean: Fraction = Fraction(0)
    rest: Fraction = Fraction(0)


def excess(epsilon: Fraction, direction: int) -> Fraction:
    """Return e^epsilon - 1, rounded to a double."""
    with rounding(direction):
        value = gmpy2.expm1(mpfr(rational(epsilon)))
    return Fraction(float_up(value) if direction == UP else float_down(value))


def three_labels(o1: Fraction, p1: Fraction, far: Fraction) -> Labels:
    """Return the labels for e^epsilon = 1 + o1 < e^eps0 = 1 + p1 and a total variation ``far``."""
    third = (1 - (2 + p1) * far / p1) / (1 + p1)
    unit = 1 / (p1 * (2 + o1))
    slope = (p1 - o1) * unit * (1 + _MARGIN)
    return Labels(2 * far * (2 + o1), 2 * far / p1, slope, third, (1 + p1) * o1 * unit)


def labels_delta(labels: Labels, n: int) -> float:
    """Return the divergence, rounded up."""
    inside, outside = _settled(labels, n, thin=not labels.third)
    return min(1.0, (inside + outside + _TINY) * (1 + SLACK))


def _settled(labels: Labels, n: int, *, thin: bool) -> tuple[float, float]:
    """Return the divergence within windows, and the probability outside."""
    mass = 50.0
    while True:
        inside, outside = _sum(labels, n, mass, thin=thin), 2 * math.exp(-mass)
        if outside <= 1e-9 * inside or mass > 600:
            return inside, outside
        mass = min(3 * mass, 660.0)


@np.errstate(under="ignore")
def _sum(labels: Labels, n: int, mass: float, *, thin: bool) -> float:
    """Return the divergence without e^-mass of S and of G; S is the fewest of a block if thin."""
    share, third = labels.share, labels.third
    window = binomial_window(n - 1, float(share), float(share / (1 - share)), mass)
    thirds = binomial_window(n - 1, float(third), float(third / (1 - third)), mass)
    fewest, g = thirds.first, np.arange(thirds.pmf.size if third else 1)
    t = np.arange(window.first + 1, window.first + 1 + window.pmf.size)
    slope, lean = float(labels.slope), float(labels.lean)
    edges = slope * t - lean * fewest - float(labels.rest) * (n - t)
    possible = edges > 0  # from some t on
    if not possible.any():
        return 0.0
    t, edges = t[possible], edges[possible]
    r = t + 1 - np.ceil(edges)  # B < edge where A >= r
    rate = math.log(2) + slope * math.log(slope) + (1 - slope) * math.log1p(-slope)
    step = max(1, int(_STEP / (rate + 1 / t[0])), t.size // _BLOCKS) if thin else 1
    starts = np.arange(0, t.size, step)
    weights = np.add.reduceat(window.pmf[possible], starts)
    t, edges, r = t[starts], edges[starts], r[starts]
    weights *= np.exp(log_pmf(r, t, 0.5)) / t
    half = (0.5 - slope) * t[0]
    reach = math.ceil(math.sqrt(half * half + 25 * (t[-1] + 1)) - half) + 2
    reach = min(reach + math.ceil(lean * g.size), int((t - r).max()) + 2)
    odds = float(third / (1 - share - third))
    size, total = 1 + _PART // (reach + g.size), 0.0
    for first in range(0, t.size, size):
        part = slice(first, first + size)
        s, a, at = (x[part, np.newaxis] for x in (t, r, edges))
        remaining = np.maximum(n - s - fewest - g[:-1], _TINY)
        ratios = remaining / (fewest + g[1:]) * odds if third else remaining
        log = _from(0.0, np.cumsum(np.log(ratios), axis=1))
        chances = np.exp(log - log.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        # P[A >= a + j] and E[(A - a - j)_+] over P[A = a], from the largest j down
        j = np.arange(reach - 1)
        equal = _from(1.0, np.cumprod(np.maximum(s - a - j, 0) / (a + 1 + j), axis=1))
        tails = np.cumsum(equal[:, ::-1], axis=1)
        beyond = _from(0.0, np.cumsum(tails[:, :-1], axis=1))
        at = at - lean * g
        b = np.ceil(at) - 1
        k = reach - 1 - np.minimum(s - a - b, reach - 1).astype(np.int64)
        mean = np.take_along_axis(beyond, k, axis=1)
        mean += (at - b) * np.take_along_axis(tails, k, axis=1)
        total += float(np.dot(weights[part], (chances * mean).sum(axis=1)))
    return float(labels.scale) * total


def _from(start: float, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rows of x after a first entry."""
    return np.pad(x, ((0, 0), (1, 0)), constant_values=start)


def amplified_delta(
    epsilon: float | Fraction,
    n: int,
    local_epsilon: float | Fraction,
    *,
    total_variation: float | Fraction = 1,
) -> float:
    """Return a delta for which n shuffled messages are together (epsilon, delta)-private.

    For both orders of any two values; rounded up. Users may have different randomizers, as long as
    the probabilities of every output, for all users and values, are within a factor e^local_epsilon
    of each other.

    Parameters
    ----------
    epsilon : float
        At least 0.
    n : int
        Number of users, each of whom sends one message, up to 10^9; 10^6 if ``total_variation``
        matters.
    local_epsilon : float
        Local epsilon of one message by itself, from 1e-100 to 60.
    total_variation : float
        Upper bound on the total variation distance between one user's messages for any two values.
        It matters below tanh(local_epsilon / 2), which no distance exceeds. A call then takes up to
        a few seconds.

    Examples
    --------
    >>> f"{amplified_delta(0.1, 10**5, 4.0):.1e}"  # each message is 4-private, all of them 0.1
    '8.8e-06'

    Laplace noise on [0, 1] has a total variation distance of 1 - e^(-local_epsilon / 2):

    >>> f"{amplified_delta(0.15, 1000, 1.0):.1e}"
    '8.7e-07'
    >>> f"{amplified_delta(0.15, 1000, 1.0, total_variation=0.3935):.1e}"
    '2.1e-07'
    """
    eps, users, local = checked(epsilon, n, local_epsilon)
    far = number("total_variation", total_variation, above=0, high=1)
    if eps >= local:
        return 0.0
    p1 = excess(local, UP)
    far = min(far, p1 / (2 + p1))
    labels = three_labels(excess(eps, DOWN), p1, far)
    if labels.third:
        integer("n", n, high=MAX_COUNTED)
    return labels_delta(labels, users)


def checked(epsilon: object, n: object, local_epsilon: object) -> tuple[Fraction, int, Fraction]:
    """Check and return the arguments of a divergence."""
    return (
        number("epsilon", epsilon, low=0),
        integer("n", n, low=1, high=MAX_PROTOCOL_USERS),
        number("local_epsilon", local_epsilon, low=_LEAST, high=_MOST),
    )


def amplified_delta_floor(
    epsilon: float | Fraction, n: int, local_epsilon: float | Fraction
) -> float:
    """Return a lower bound, rounded down, on every delta that holds for all local randomizers.

    The exact divergence of randomized response on three values if all other users hold the third.

    Parameters
    ----------
    epsilon, local_epsilon : float
        As for `amplified_delta`.
    n : int
        Up to 10^6.

    Examples
    --------
    >>> f"{amplified_delta_floor(0.1, 10**5, 4.0):.1e}"
    '7.9e-06'
    """
    eps, users, local = checked(epsilon, integer("n", n, high=MAX_COUNTED), local_epsilon)
    return third_value(excess(eps, UP), excess(local, DOWN), users, 3)


def third_value(o1: Fraction, p1: Fraction, n: int, k: int) -> float:
    """Return the divergence of response on k values if all others hold a third, rounded down."""
    if o1 >= p1:
        return 0.0
    unit = 1 / (p1 * (2 + o1))
    slope, rest = (p1 - o1) * unit * (1 - _MARGIN), o1 / (1 + p1) * unit
    share, third = Fraction(2) / (k + p1), Fraction(k - 3) / (k + p1)
    labels = Labels(share / unit, share, slope, third, p1 * rest, rest)
    inside, outside = _settled(labels, n, thin=False)
    return max(0.0, inside * (1 - SLACK) - outside - _TINY)


def amplified_epsilon(
    delta: float | Fraction,
    n: int,
    local_epsilon: float | Fraction,
    *,
    total_variation: float | Fraction = 1,
) -> float:
    """Return an epsilon for which n shuffled messages are together (epsilon, delta)-private.

    Rounded up, to a relative precision of 1e-6, and at least 1e-9; `amplified_delta` at the result
    is at most delta.

    Parameters
    ----------
    delta : float
        In (0, 1).
    n, local_epsilon, total_variation
        As for `amplified_delta`.

    Examples
    --------
    >>> round(amplified_epsilon(1e-6, 10**4, 1.0), 5)
    0.04321
    """
    small = round_down(number("delta", delta, above=0, below=1))
    local = checked(0, n, local_epsilon)[2]

    def holds(eps: float) -> bool:
        return amplified_delta(eps, n, local, total_variation=total_variation) <= small

    most, least = round_up(local), min(_LEAST_FOUND, float(local))
    return least if holds(least) else bisect(holds, most, least, geometric=True)


def amplified_local_epsilon(
    epsilon: float | Fraction, delta: float | Fraction, n: int, *, share: float | Fraction = 1
) -> float:
    """Return a local epsilon for which the shuffled messages are together (epsilon, delta)-private.

    `amplified_delta` at the result is at most delta; the result is at least epsilon, and within a
    millionth of the largest that the search finds.

    Parameters
    ----------
    epsilon, delta : float
        The joint guarantee, epsilon from 1e-100 to 60, delta in (0, 1).
    n : int
        As for `amplified_delta`.
    share : float
        Total variation distance of messages as a fraction of the largest, tanh(local_epsilon / 2).

    Examples
    --------
    >>> round(amplified_local_epsilon(1.0, 1e-12, 10**6), 2)
    9.19
    """
    eps = number("epsilon", epsilon, low=_LEAST, high=_MOST)
    small = round_down(number("delta", delta, above=0, below=1))
    part = number("share", share, above=0, high=1)

    def holds(local: float) -> bool:
        p1 = excess(Fraction(local), UP)
        return amplified_delta(eps, n, local, total_variation=part * p1 / (2 + p1)) <= small

    return bisect(holds, round_down(eps), _MOST)
