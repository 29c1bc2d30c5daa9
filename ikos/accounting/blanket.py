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

MAX_USERS = 10**9  # most users
SLACK = 1e-7  # relative enlargement of a divergence: far more than the errors of the doubles
LEAST_GAMMA = 2.0**-53  # given by the grid on which answers are drawn
_FIRST_TAIL = 1e-22
MAX_TERMS = 1 << 17  # most terms of one divergence, by default


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
        Number of users whose answers hide each other, from 1 to 10^9.
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
        object.__setattr__(self, "n", integer("n", self.n, low=1, high=MAX_USERS))
        object.__setattr__(self, "k", number("k", self.k, low=2, high=1 << 40))
        object.__setattr__(self, "gamma", number("gamma", self.gamma, low=LEAST_GAMMA, high=1))

    @cached_property
    def local_epsilon(self) -> float:
        """The guarantee of one answer by itself, rounded up."""
        return local_epsilon(self.k, self.gamma)

    def divergence(self, epsilon: float) -> float:
        """Return the hockey-stick divergence of order e^epsilon >= 1, rounded up by 1e-7 of it."""
        number("epsilon", epsilon, low=0)
        if self.gamma == 1 or epsilon >= self.local_epsilon:
            return 0.0
        return min(1.0, self.tails(epsilon)[2] * (1 + SLACK))

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


@lru_cache(maxsize=4096)
def blanket_divergence(epsilon: float, n: int, k: int | Fraction, gamma: Fraction) -> float:
    """Return `ResponseBlanket.divergence`, rounded up, from a cache."""
    return ResponseBlanket(n, k, gamma).divergence(epsilon)
