"""The exact divergence of the privacy blanket: shuffled randomized response on k values.

n users answer by randomized response on a domain of k >= 2 values: with probability gamma a uniform
value, otherwise the true value. The adversary sees the shuffled answers, knows every value but one
user's, and knows which of the *other* users answered at random; the analyzer knows less. With M ~
Bin(n, gamma) and W uniform, its divergence is exactly (BBGN19, Lemma 5.3)

    delta(eps) = E[(L_1 + ... + L_M)_+] / (gamma n),
    L = gamma (1 - e^eps) + (1 - gamma) k (1[W = x] - e^eps 1[W = x']).

The same holds if each user has its own set of messages, a fraction 1/k of all; k then need not be
an integer. Proofs: :ref:`proof-blanket`.

BBGN19 is Balle, Bell, Gascon, Nissim, "The Privacy Blanket of the Shuffle Model", CRYPTO 2019.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from ikos._validation import InvalidValue, floating, integer, number
from ikos.numeric.binomial import Floats, binomial_window, log_pmf, pmf_around, reach
from ikos.numeric.rounding import exp_down
from ikos.primitives.randomized_response import grid_up

MAX_ANSWERS = 10**10  # most users of one randomized response
SLACK = 1e-7  # relative enlargement of a divergence: more than the errors of the doubles
LEAST_GAMMA = 2.0**-53  # of the grid on which answers are drawn
_FIRST_TAIL = 1e-22


def local_epsilon(k: int | Fraction, gamma: Fraction) -> float:
    """Return the guarantee of one answer by itself, ln(1 + k (1 - gamma) / gamma), rounded up.

    ``k`` is the inverse of the fraction of all possible answers in one user's set. Infinite if
    the likelihood ratio is above 2^1000.
    """
    chance = number("gamma", gamma, above=0, high=1)
    return math.log1p(floating(number("k", k, low=1) * (1 - chance) / chance)) * (1 + 1e-12)


def local_gamma(epsilon: Fraction, k: int | Fraction) -> Fraction:
    """Return the smallest gamma on the grid at which one answer is epsilon-private by itself."""
    return min(Fraction(1), grid_up(Fraction(k) / (exp_down(epsilon) - 1 + k)))


class TooManyTermsError(InvalidValue):
    """The exact divergence would take too many terms."""


@dataclass(frozen=True)
class ResponseBlanket:
    """Shuffled randomized response of n users on k values, and the divergence of its view.

    Parameters
    ----------
    n : int
        Number of users whose answers hide each other, from 1 to 10^10.
    k : int or Fraction
        Number of values in the domain, at least 2; on {0..p} it is p + 1. If each user has a set of
        messages, the inverse of its fraction of all possible messages.
    gamma : Fraction
        Probability of a uniform answer, in (0, 1].
    """

    n: int
    k: int | Fraction
    gamma: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", integer("n", self.n, low=1, high=MAX_ANSWERS))
        object.__setattr__(self, "k", number("k", self.k, low=2, high=1 << 40))
        object.__setattr__(self, "gamma", number("gamma", self.gamma, low=LEAST_GAMMA, high=1))

    @cached_property
    def local_epsilon(self) -> float:
        """The guarantee of one answer by itself, rounded up."""
        return local_epsilon(self.k, self.gamma)

    def divergence(self, epsilon: float) -> float:
        """Return the hockey-stick divergence of order e^epsilon >= 1, rounded up.

        Exchanging the two values only exchanges their answers: it is the same in both orders.
        Too large by less than 1e-5 of it (measured) and 1e-300, unless A + B takes more than 10^5
        values and the edge of the event is within a tenth of a standard deviation of its mean.
        """
        number("epsilon", epsilon, low=0)
        if self.gamma == 1 or epsilon >= self.local_epsilon:
            return 0.0
        odds = max(Fraction(1), Fraction(math.exp(epsilon)) * _LOWERED)
        tail = _FIRST_TAIL
        while True:
            expected = self._expected_excess(odds, tail)[1]
            if 4 * tail <= 1e-9 * expected or tail < 1e-290:
                # S or C beyond its window adds at most 2 P[S* or C outside], S* size-biased
                return min(1.0, (expected + 4 * tail) * (1 + SLACK))
            tail = max(tail**3, 1e-300)

    def attained(self, epsilon: float) -> float:
        """Return a lower bound on the divergence of the analyzer's view, rounded down.

        The divergence of the numbers of answers x and x' if all others hold one third value, which
        for k = 3 is the whole view; k must be an integer and at least 3.
        """
        number("epsilon", epsilon, low=0)
        integer("k", self.k.numerator if self.k.denominator == 1 else self.k, low=3)
        if self.gamma == 1 or epsilon >= self.local_epsilon:
            return 0.0
        odds = Fraction(math.exp(epsilon)) / _LOWERED
        return max(0.0, self._expected_excess(odds, _FIRST_TAIL)[0] * (1 - SLACK))

    @np.errstate(under="ignore")
    def _expected_excess(self, odds: Fraction, tail: float) -> tuple[float, float]:
        """Return bounds on E[(L_1 + ... + L_M)_+] / (gamma n) inside the windows.

        The lower one has the mean of C, given S, instead of C.
        """
        n, k, gamma = self.n, self.k, self.gamma
        truth = (1 - gamma) * k
        # The sum of the L_i is positive if B < kappa S - slope C; kappa > 0 below the local epsilon
        kappa = (truth - gamma * (odds - 1)) / (truth * (1 + odds))
        if kappa <= 0:
            return 0.0, 0.0
        slope = float(gamma * (odds - 1) / (truth * (1 + odds)))
        chance = 2 * gamma / k
        ratio = float(chance / (1 - chance))
        window = binomial_window(n - 1, float(chance), ratio, -math.log(tail))
        # S, weighted by itself, is one more than that of n - 1 users
        s = np.arange(window.pmf.size, dtype=np.float64) + window.first + 1
        weight = window.pmf / s * float(truth * (1 + odds) * 2 / k)
        pi = gamma * (1 - Fraction(2) / k) / (1 - chance)  # of C, among the n - s others
        most = s * float(kappa)
        edge = most - slope * float(pi) * (n - s)  # its mean
        start = np.maximum(np.floor(edge), -1) + 1
        first = np.exp(log_pmf(start, s, 0.5))
        above = 0.0
        if slope > 0 and pi > 0:
            above = float(np.dot(weight, _kinks(s, n - s, pi, most, slope, start, first, tail)))
        weight *= first * start / (s - start + 1)  # times P[B = start - 1]
        depth = 16
        while True:
            least = largest = 0.0
            for i in range(0, s.size, _BLOCK):
                here = slice(i, i + _BLOCK)
                ends = shortfall(s[here], edge[here], start[here] - 1, depth)
                least += float(np.dot(weight[here], ends[0]))
                largest += float(np.dot(weight[here], ends[1]))
            if largest - least <= 1e-9 * largest or depth >= _MAX_DEPTH:
                return least, largest + above
            depth *= 4


_LOWERED = 1 - Fraction(1, 10**13)  # more than e^epsilon in doubles, and an edge, are rounded
_MAX_DEPTH = 1024
_TABLE = 1 << 22  # about the most entries of tables of binomial probabilities
_SHARED = 1e-5
_BLOCK = 1 << 12  # values of S at a time: they fit into the cache


def shortfall(s: Floats, edge: Floats, b: Floats, depth: int) -> tuple[Floats, Floats]:
    """Bound E[(edge - B)_+] / P[B = b] for B ~ Bin(s, 1/2) and b = floor(edge), edge <= s/2.

    By P[B <= b] / P[B = b], a continued fraction with positive terms, cut off after ``depth``.
    """
    rest = s - b

    def first(j: int) -> Floats:
        return np.maximum(b - (j - 1), 0) / (rest + 2 * j - 1) * (rest + j - 1) / (rest + 2 * j - 2)

    def second(j: int) -> Floats:
        return j * (s + j) / ((rest + 2 * j - 1) * (rest + 2 * j))

    x, y = first(depth + 1), second(depth)
    high = 1 - x + y
    low = np.full_like(high, np.inf)
    for j in range(depth, 0, -1):
        x = first(j)
        product = x * y
        y = second(j - 1) if j > 1 else 0 * y
        low, high = 1 - x + y + product / low, 1 - x + y + product / high
    # E[(edge - b); B <= b] + E[b - B; B <= b]; the latter cancels, but is exactly 0 for b = 0
    ends = [(edge - b) / each + (rest / 2 - (s / 2 - b) / each) for each in (low, high)]
    error = np.where(b > 0, 2.0**-50 * rest, 0)
    return np.maximum(np.minimum(*ends) - error, 0), np.maximum(np.maximum(*ends) + error, 0)


@np.errstate(under="ignore")
def _kinks(
    s: Floats,
    others: Floats,
    pi: Fraction,
    most: Floats,
    slope: float,
    start: Floats,
    first: Floats,
    tail: float,
) -> Floats:
    """Bound E[(edge(C) - B)_+] - E[(E edge(C) - B)_+], edge(C) = most - slope C, from above.

    The sum over b of P[B = b] times E[(edge(C) - b)_+] - (E edge(C) - b)_+. C ~ Bin(others, pi) is
    taken with a few more others, at the same mean: larger in convex order.
    """
    p = float(pi)
    wanted = -math.log(tail / 2)
    mean = float(others[0]) * p
    down = math.ceil(reach(mean, wanted))
    size = 2 * down
    # A column serves some values of S: by its larger variance, this adds about _SHARED of it all.
    half, few = s[s.size // 2], others[s.size // 2]
    edge = most[s.size // 2] - slope * p * few
    part = few * p * (1 - p) * (slope * (half - 2 * edge) * 2 / half) ** 2 / 2
    each = max(1, int(min(_SHARED * few / max(part, 1e-2), s.size)), s.size * size // _TABLE)
    column = np.arange(s.size) // each
    trials = others[::each]
    pmf = pmf_around(trials, p, float(pi / (1 - pi)), down, down)
    upper = np.zeros((size + 3, trials.size))  # E[(C - c)_+] for c = middle - down, ...
    np.cumsum(np.cumsum(pmf[:0:-1], axis=0), axis=0, out=upper[:size][::-1])
    lower = np.zeros_like(upper)  # E[(c - C)_+]
    np.cumsum(np.cumsum(pmf, axis=0), axis=0, out=lower[1:-1])
    shift = (trials[column] - others) * p - (np.round(trials * p) - down)[column]
    result = np.zeros(s.size)
    for table, step in ((upper, -1), (lower, 1)):
        b = start + min(step, 0)
        here = first if step == 1 else first * start / (s - start + 1)
        while True:
            c = (most - b) / slope + shift
            inside = (b >= 0) & (b <= s) & ((c > 0) if step == 1 else (c < size))
            if not inside.any():
                break
            c = np.clip(c, 0, size + 1)
            whole = np.floor(c)
            index = whole.astype(np.int64)
            left, right = table[index, column], table[index + 1, column]
            result += np.where(inside, here * (left + (c - whole) * (right - left)), 0.0)
            here = here * ((s - b) / (b + 1) if step == 1 else b / (s - b + 1))
            b = b + step
    return slope * result


@lru_cache(maxsize=4096)
def blanket_divergence(epsilon: float, n: int, k: int | Fraction, gamma: Fraction) -> float:
    """Return `ResponseBlanket.divergence`, rounded up, from a cache."""
    return ResponseBlanket(n, k, gamma).divergence(epsilon)
