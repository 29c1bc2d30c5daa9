"""The exact divergence of the privacy blanket: shuffled randomized response on k values.

n users answer by randomized response on a domain of k >= 2 values: with probability gamma a uniform
value, otherwise the truth. The adversary sees the shuffled answers, knows every value but one
user's, and knows which of the *other* users answered at random; the analyzer knows less. With M ~
Bin(n, gamma) and W uniform, its divergence is exactly (BBGN19, Lemma 5.3)

    delta(eps) = E[(L_1 + ... + L_M)_+] / (gamma n),
    L = gamma (1 - e^eps) + (1 - gamma) k (1[W = x] - e^eps 1[W = x']).

The same holds if each user has its own set of messages, a part 1/k of all; k then need not be an
integer. Proofs: :ref:`proof-blanket`.

BBGN19 is Balle, Bell, Gascon, Nissim, "The Privacy Blanket of the Shuffle Model", CRYPTO 2019.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import gmpy2
import numpy as np
import scipy
from gmpy2 import mpfr
from numpy.typing import NDArray
from scipy.special import betainc

from ikos._validation import floating, integer, number
from ikos.counts.rounding import DOWN, rational, rounding
from ikos.randomized_response import grid_up

MAX_USERS = 10**9  # most users of protocols
MAX_ANSWERS = 10**10  # most users of one randomized response
SLACK = 1e-7  # relative enlargement of a divergence: more than the errors of the doubles
LEAST_GAMMA = 2.0**-53  # given by the grid on which answers are drawn
_FIRST_TAIL = 1e-22
MAX_TERMS = 1 << 17  # most terms of the masses of one loss, by default


def reach_up(mean: Any, wanted: float) -> Any:
    """Return x with P[X > mean + x] <= e^-wanted for every binomial X, by Bernstein."""
    return wanted / 3 + np.sqrt(wanted * wanted / 9 + 2 * mean * wanted)


def reach_down(mean: Any, wanted: float) -> Any:
    """Return x with P[X < mean - x] <= e^-wanted for every binomial X, by Chernoff."""
    return np.sqrt(2 * mean * wanted)


def exp_down(epsilon: Fraction) -> Fraction:
    """Return a rational that is at most e^epsilon, to 256 bits."""
    with rounding(DOWN):
        return Fraction(*map(int, gmpy2.exp(mpfr(rational(epsilon))).as_integer_ratio()))


def local_epsilon(k: int | Fraction, gamma: Fraction) -> float:
    """Return the guarantee of one answer by itself, ln(1 + k (1 - gamma) / gamma), rounded up.

    ``k`` is the inverse of the share of a user's own answers among all. Infinite if the likelihood
    ratio is above 2^1000.
    """
    chance = number("gamma", gamma, above=0, high=1)
    return math.log1p(floating(number("k", k, low=1) * (1 - chance) / chance)) * (1 + 1e-12)


def local_gamma(epsilon: Fraction, k: int | Fraction) -> Fraction:
    """Return the smallest gamma on the grid at which one answer is epsilon-private by itself."""
    return min(Fraction(1), grid_up(Fraction(k) / (exp_down(epsilon) - 1 + k)))


class TooManyTermsError(ValueError):
    """The exact divergence would take too many terms."""


@dataclass(frozen=True)
class ResponseBlanket:
    """Shuffled randomized response of n users on k values, and what an adversary learns from it.

    Parameters
    ----------
    n : int
        Number of users whose answers hide each other, from 1 to 10^10.
    k : int or Fraction
        Number of values in the domain, at least 2; on {0..p} it is p + 1. If a user has several own
        messages, the inverse of their share of all messages.
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

        Too large by less than 1e-5 of it (measured) and 1e-300, unless A + B takes more than 10^5
        values and the edge of the event is within a tenth of a standard deviation of its mean.
        """
        number("epsilon", epsilon, low=0)
        if self.gamma == 1 or epsilon >= self.local_epsilon:
            return 0.0
        odds = max(Fraction(1), Fraction(_exp_down(epsilon)) * _LOWERED)
        tail = _FIRST_TAIL
        while True:
            found = self._expected_excess(odds, tail)[1]
            if 4 * tail <= 1e-9 * found or tail < 1e-290:
                # S or C beyond its window adds at most 2 P[S* or C outside], S* size-biased
                return min(1.0, (found + 4 * tail) * (1 + SLACK))
            tail = max(tail**3, 1e-300)

    def attained(self, epsilon: float) -> float:
        """Return a lower bound on the divergence of the analyzer's view, rounded down.

        That of the numbers of answers x and x' if all others hold one third value, which for k = 3
        is the whole view; k must be an integer and at least 3.
        """
        number("epsilon", epsilon, low=0)
        integer("k", self.k.numerator if self.k.denominator == 1 else self.k, low=3)
        if self.gamma == 1 or epsilon >= self.local_epsilon:
            return 0.0
        odds = Fraction(math.exp(epsilon)) / _LOWERED
        return max(0.0, self._expected_excess(odds, _FIRST_TAIL)[0] * (1 - SLACK))

    def _expected_excess(self, odds: Fraction, tail: float) -> tuple[float, float]:
        """Return bounds on E[(L_1 + ... + L_M)_+] / (gamma n) inside the windows.

        The lower one has the mean of C, given S, in place of C.
        """
        n, k, gamma = self.n, self.k, self.gamma
        truth = (1 - gamma) * k
        # The sum of the L_i is positive if B < kappa S - slope C; kappa > 0 below the local epsilon
        kappa = (truth - gamma * (odds - 1)) / (truth * (1 + odds))
        if kappa <= 0:
            return 0.0, 0.0
        slope = float(gamma * (odds - 1) / (truth * (1 + odds)))
        low, high = self._window(tail)
        s = np.arange(max(low, 1), high + 1, dtype=np.float64)  # S = 0 has no A
        chance = 2 * gamma / k
        middle = round(n * float(chance))
        weight = binomial_pmf(np.array([n]), chance, middle - low, high - middle)[-s.size :, 0]
        weight *= float(truth * (1 + odds) / (gamma * n))
        pi = gamma * (1 - Fraction(2) / k) / (1 - chance)  # of C, among the n - s others
        most = s * float(kappa)
        edge = most - slope * float(pi) * (n - s)  # its mean
        start = np.maximum(np.floor(edge), -1) + 1
        first = _half_pmf(s, start)
        above = 0.0
        if slope > 0 and pi > 0:
            above = float(np.dot(weight, _kinks(s, n - s, pi, most, slope, start, first, tail)))
        weight *= first * start / (s - start + 1)  # times P[B = start - 1]
        depth = 16
        while True:
            least = largest = 0.0
            for i in range(0, s.size, _BLOCK):
                here = slice(i, i + _BLOCK)
                ends = _shortfall(s[here], edge[here], start[here] - 1, depth)
                least += float(np.dot(weight[here], ends[0]))
                largest += float(np.dot(weight[here], ends[1]))
            if largest - least <= 1e-9 * largest or depth >= _MAX_DEPTH:
                return least, largest + above
            depth *= 4

    def tails(self, epsilon: float, most_terms: int | None = None) -> tuple[float, float, float]:
        """Return the masses under x and under x' of a privacy loss above epsilon >= 0, and delta.

        In doubles; the truncated mass is added to the first and the last. TooManyTermsError above
        ``most_terms``, by default ``MAX_TERMS``.
        """
        most = MAX_TERMS if most_terms is None else most_terms
        tail = _FIRST_TAIL
        while True:
            above, below, delta, outside = self._sums(epsilon, tail, most)
            if outside <= 1e-9 * delta or tail < 1e-290:
                return above + outside, below, delta + outside
            tail = max(tail**3, 1e-300)

    @property
    def width(self) -> int:
        """Number of values of A + B that matter, with which the time of a divergence grows."""
        low, high = self._window(_FIRST_TAIL)
        return high - low

    def _window(self, tail: float) -> tuple[int, int]:
        """Return the range outside of which the size-biased S = A + B has at most mass ``tail``."""
        mean = float(2 * self.gamma / self.k) * self.n
        wanted = -math.log(tail / 2)
        down, up = reach_down(mean, wanted), reach_up(mean, wanted)
        # the size-biased variable is one more than a binomial one of n - 1
        return max(0, math.floor(mean - down) - 1), min(self.n, math.ceil(mean + up) + 2)

    def _sums(
        self, epsilon: float, tail: float, most_terms: int
    ) -> tuple[float, float, float, float]:
        n, k, gamma = self.n, self.k, float(self.gamma)
        low, high = self._window(tail)
        # S or C beyond its window adds at most 2 P[S* or C outside] to each mass, S* size-biased.
        outside = 4 * tail
        s = np.arange(max(low, 1), high + 1, dtype=np.float64)  # S = 0 has no A
        weight = scipy.stats.binom.pmf(s, n, 2 * gamma / k)
        # The event is B < edge = kappa S - slope C. The difference of edge and an integer may be
        # small compared with the rounding of these two. So e^eps is lowered by a part of 1e-13,
        # which enlarges the divergence and moves kappa by more than its rounding (proof-blanket).
        odds = max(Fraction(1), Fraction(_exp_down(epsilon)) * _LOWERED)
        truth = (1 - self.gamma) * k
        kappa = (truth - self.gamma * (odds - 1)) / (truth * (1 + odds))
        slope = float(self.gamma * (odds - 1) / (truth * (1 + odds)))
        others = n - s
        pi = gamma * (1 - 2 / k) / (1 - 2 * gamma / k) if k > 2 else 0.0
        mu = others * pi
        most = s * float(kappa)  # kappa > 0: epsilon is below the local guarantee
        # without other values C is 0
        reach = reach_up(mu, -math.log(tail / 2)) if k > 2 else 0 * mu
        first = np.ceil(most - slope * np.maximum(mu - reach, 0)) - 1
        last = np.ceil(most - slope * np.minimum(mu + reach, others)) - 1
        first, last = np.maximum(first, -1), np.maximum(last, -1)  # B <= -1 never happens
        steps = int(max(0, (first - last).max())) + 1
        if s.size * steps > most_terms:
            raise TooManyTermsError(
                f"epsilon must be larger for exact losses at n = {n}, k = {k}, gamma = "
                f"{gamma:.3g}, got {epsilon:.3g}: they would take {s.size * steps:.2g} terms; use "
                "composition='basic'"
            )
        by_terms = first.max() <= _FEW or epsilon > _LARGE
        within = _lower_sums(s, int(first.max())) if by_terms else _centred_sums(s)
        excess, mass_b, chance, mass_m = (np.zeros(s.size) for _ in range(4))
        before, before_mean = np.zeros(s.size), np.zeros(s.size)
        for step in range(steps):
            b = first - step  # B <= b where edge is in (b, b + 1]
            if slope > 0 and k > 2:
                ends = np.ceil((most - b) / slope) - 1  # the largest C with edge > b
                if step == steps - 1:
                    ends = np.where(b >= 0, others, ends)
                upto, upto_mean = _below(ends, others, pi)
            else:
                upto, upto_mean = np.ones(s.size), np.zeros(s.size)
            here, here_mean = upto - before, upto_mean - before_mean
            before, before_mean = upto, upto_mean
            below, short, seen = within(b)
            # E[edge - B; B <= b] = (edge - b) P[B <= b] + E[b - B; B <= b], or centred at S / 2
            start = most - b if by_terms else s * float(kappa - _HALF)
            excess += ((start - slope * mu) * below + short) * here - slope * below * here_mean
            mass_b += seen * here
            chance += below * here
            mass_m += below * ((s + mu) * here + here_mean)
        scale = 1 / (gamma * n)
        seen_b = float(np.dot(weight, mass_b))
        seen_a = float(np.dot(weight, s * chance)) - seen_b
        blank = gamma * float(np.dot(weight, mass_m))
        delta = max(0.0, float(np.dot(weight, excess)))
        return (
            scale * (blank + float(truth) * seen_a),
            scale * (blank + float(truth) * seen_b),
            scale * float(truth * (1 + odds)) * delta,
            outside,
        )


_HALF = Fraction(1, 2)
_LOWERED = 1 - Fraction(1, 10**13)
# Up to _FEW values of B, or above an epsilon of _LARGE, sums over B are taken term by term: centred
# at S / 2 they would cancel, as the few values of B that count are far from there.
_FEW = 64
_LARGE = 4.0

Partial = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def _exp_down(epsilon: float) -> float:
    """Return a double that is at most e^epsilon, and within three units of it."""
    result = math.exp(epsilon)
    return result if epsilon == 0 else math.nextafter(math.nextafter(result, 0), 0)


def _lower_sums(s: NDArray[np.float64], most: int) -> Callable[[NDArray[np.float64]], Partial]:
    """Return P[B <= b], E[b - B; B <= b] and E[B; B <= b] for B ~ Bin(s, 1/2), term by term."""
    below = np.zeros((most + 2, s.size))  # row b + 1: P[B <= b]
    seen = np.zeros((most + 2, s.size))
    values = np.arange(most + 1.0)[:, np.newaxis]
    here = scipy.stats.binom.pmf(values, s, 0.5)
    np.cumsum(here, axis=0, out=below[1:])
    np.cumsum(values * here, axis=0, out=seen[1:])
    short = np.zeros((most + 2, s.size))
    short[1:] = np.cumsum(below, axis=0)[:-1]  # the sum of P[B <= i] for i < b
    columns = np.arange(s.size)

    def at(b: NDArray[np.float64]) -> Partial:
        row = np.clip(b + 1, 0, most + 1).astype(np.int64)
        return below[row, columns], short[row, columns], seen[row, columns]

    return at


def _centred_sums(s: NDArray[np.float64]) -> Callable[[NDArray[np.float64]], Partial]:
    """Return P[B <= b], E[s/2 - B; B <= b] and E[B; B <= b] for B ~ Bin(s, 1/2)."""

    def at(b: NDArray[np.float64]) -> Partial:
        inside = np.clip(b, 0, s - 1)
        below = np.where(b < 0, 0.0, betainc(s - inside, inside + 1, 0.5))
        short = np.where(b < 0, 0.0, (inside + 1) / 2 * scipy.stats.binom.pmf(inside + 1, s, 0.5))
        return below, short, s / 2 * below - short

    return at


def _below(
    c: NDArray[np.float64], n: NDArray[np.float64], pi: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return P[C <= c] and E[C - n pi; C <= c] for C ~ Bin(n, pi)."""
    c = np.clip(c, -1, n)
    inside = np.clip(c, 0, np.maximum(n - 1, 0))
    cdf = np.where(c < 0, 0.0, np.where(c >= n, 1.0, betainc(n - inside, inside + 1, 1 - pi)))
    mean = -(c + 1) * (1 - pi) * scipy.stats.binom.pmf(c + 1, n, pi)
    return cdf, np.where((c < 0) | (c >= n), 0.0, mean)


def binomial_pmf(n: NDArray[Any], p: Fraction, down: int, up: int) -> NDArray[np.float64]:
    """Return P[X = m - down], ..., P[X = m + up], normalized, for X ~ Bin(n, p) and m = round(n p).

    In a column for each entry of n.
    """
    odds = float(p / (1 - p))
    middle = np.round(n * float(p))
    pmf = np.ones((down + 1 + up, n.size))
    k = middle + np.arange(up, dtype=np.float64)[:, np.newaxis]
    np.cumprod(np.maximum(n - k, 0) / (k + 1) * odds, axis=0, out=pmf[down + 1 :])
    k = middle - np.arange(down, dtype=np.float64)[:, np.newaxis]
    np.cumprod(np.maximum(k, 0) / ((n - k + 1) * odds), axis=0, out=pmf[:down][::-1])
    pmf /= pmf.sum(axis=0)
    return pmf


_MAX_DEPTH = 1024
_TABLE = 1 << 22  # about the most entries of tables of binomial probabilities
_SHARED = 1e-5
_BLOCK = 1 << 12  # values of S at a time: they fit into the cache
_LOG_FACTORIALS = np.array([math.lgamma(k + 1) for k in range(16)])


def _log_factorial(k: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln(k!) - k ln(k) + k, within 3e-12."""
    few = np.minimum(k, 15)
    many = np.maximum(k, 16)
    inverse = 1 / many
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square / 1260))
    exact = _LOG_FACTORIALS[few.astype(np.int64)] - scipy.special.xlogy(few, few) + few
    return np.where(k < 16, exact, 0.5 * np.log(2 * math.pi * many) + series)


def _half_pmf(s: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P[B = b] for B ~ Bin(s, 1/2), by Stirling's series."""
    x = (s - 2 * b) / s
    entropy = scipy.special.xlog1py(1 + x, x) + scipy.special.xlog1py(1 - x, -x)
    logs = _log_factorial(s) - _log_factorial(b) - _log_factorial(s - b)
    return np.exp(logs - s / 2 * entropy)


def _shortfall(
    s: NDArray[np.float64], edge: NDArray[np.float64], b: NDArray[np.float64], depth: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bound E[(edge - B)_+] / P[B = b] for B ~ Bin(s, 1/2) and b = floor(edge), edge <= s/2.

    By P[B <= b] / P[B = b], a continued fraction with positive terms, cut off after ``depth``.
    """
    rest = s - b

    def first(j: int) -> NDArray[np.float64]:
        return np.maximum(b - (j - 1), 0) / (rest + 2 * j - 1) * (rest + j - 1) / (rest + 2 * j - 2)

    def second(j: int) -> NDArray[np.float64]:
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


def _kinks(
    s: NDArray[np.float64],
    others: NDArray[np.float64],
    pi: Fraction,
    most: NDArray[np.float64],
    slope: float,
    start: NDArray[np.float64],
    first: NDArray[np.float64],
    tail: float,
) -> NDArray[np.float64]:
    """Bound E[(edge(C) - B)_+] - E[(E edge(C) - B)_+], edge(C) = most - slope C, from above.

    The sum over b of P[B = b] times E[(edge(C) - b)_+] - (E edge(C) - b)_+. C ~ Bin(others, pi) is
    taken with a few more others, at the same mean: larger in convex order.
    """
    p = float(pi)
    wanted = -math.log(tail / 2)
    mean = float(others[0]) * p
    down, up = math.ceil(reach_down(mean, wanted)), math.ceil(reach_up(mean, wanted))
    size = down + up
    # A column serves some values of S: by its larger variance, this adds about _SHARED of it all.
    half, few = s[s.size // 2], others[s.size // 2]
    edge = most[s.size // 2] - slope * p * few
    part = few * p * (1 - p) * (slope * (half - 2 * edge) * 2 / half) ** 2 / 2
    each = max(1, int(min(_SHARED * few / max(part, 1e-2), s.size)), s.size * size // _TABLE)
    column = np.arange(s.size) // each
    trials = others[::each]
    pmf = binomial_pmf(trials, pi, down, up)
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
