"""The exact divergence of the privacy blanket: shuffled randomized response on k values.

n users answer by randomized response on a domain of k >= 2 values: with probability gamma a uniform
value, otherwise the truth. Let the adversary see the shuffled answers, know everybody's value but
that of one user, and know as well which of the *other* users answered at random (BBGN19). What is
left to see is the multiset of M messages, the user's own and those of the M - 1 others who answered
at random; with A messages x and B messages x' among the M, the views for the values x and x' have
likelihood ratio

    (gamma M + (1 - gamma) k A) / (gamma M + (1 - gamma) k B),

and the law of (A, B, M) for the value x is that of M uniform messages, M ~ Bin(n, gamma), weighted
by (gamma M + (1 - gamma) k A) / (gamma n). With L = gamma (1 - e^eps) + (1 - gamma) k (1[W = x] -
e^eps 1[W = x']), W uniform, the hockey-stick divergence is therefore

    delta(eps) = E[(L_1 + ... + L_M)_+] / (gamma n),

which is BBGN19's Lemma 5.3 as an equality for this adversary. Swapping x and x' swaps A and B, so
that both directions are equal. The analyzer knows less: the divergence is an upper bound for it.

Here S = A + B ~ Bin(n, 2 gamma / k), C = M - S given S is binomial, and B given S is Bin(S, 1/2).
The event L_1 + ... + L_M > 0 is B < kappa S - slope C, so the sum over B is a binomial tail, that
over C a binomial law between a few points at which the integer part of the edge changes, and only
that over S is done term by term. Where B takes more than a few values its sums are centred at
S / 2: what cancels are factors of at most z^2, z the distance of the edge from there in standard
deviations. Otherwise they are sums of positive terms.

*Answers of which a user has several.* Let a message be one of T possible ones, and let each value x
have a set A(x) of s of them; the randomizer sends a uniform one of the T with probability gamma,
otherwise a uniform one of A(x). For disjoint A(x), A(x') everything above holds with k = T / s,
which need not be an integer: L depends on W through 1[W in A(x)] and 1[W in A(x')] alone, each of
probability s / T = 1 / k. Sets that overlap are the same or better: with o common messages

    L = gamma (1 - e^eps) + (1 - gamma) k X,    X = 1[W in A(x)] - e^eps 1[W in A(x')],

X takes the values 1 - e^eps and 0 where o / T each of 1 and -e^eps would be taken for disjoint
sets. These have the same mean and lie further out (-e^eps <= 1 - e^eps <= 0 <= 1), so that X is
smaller in the convex order, sums of independent copies are, and so is E[(L_1 + ... + L_M)_+]. So
delta(eps) bounds the divergence for all pairs of values, whatever their sets share. Nothing else
about the sets matters, and so they may be any function of a part of the message that is drawn
without regard to the value: of the coordinate that a message is about, if each user draws one
(k is the number of values of *one* coordinate), or of the seed of a hash function. The analyzer
sees these parts; T counts them.

BBGN19 is Balle, Bell, Gascon, Nissim, "The Privacy Blanket of the Shuffle Model", CRYPTO 2019.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc
from scipy.stats import binom

from ikos._validation import integer, number

__all__ = ["ResponseBlanket", "blanket_divergence"]

MAX_USERS = 10**9
"""Most users."""

SLACK = 1e-7
"""What a divergence is enlarged by, as a part of it: far more than the errors of the doubles.

Binomial laws are evaluated to better than 1e-12, and what cancels costs a factor of z^2, at most
10^3; the tests compare with 300-bit arithmetic.
"""

LEAST_GAMMA = 2.0**-53
"""Smallest probability of a uniform answer: that of the grid on which they are drawn."""

_FIRST_TAIL = 1e-22
MAX_TERMS = 1 << 17
"""Most terms of one divergence, by default."""


class TooManyTermsError(ValueError):
    """The exact divergence would take more terms than it is worth."""


@dataclass(frozen=True)
class ResponseBlanket:
    """Randomized response of n users on k values, shuffled, and what an adversary learns of it.

    Parameters
    ----------
    n : int
        Users whose answers hide each other, from 1 to 10^9.
    k : int or Fraction
        Values in the domain, at least 2; on {0..p} it is p + 1. Where several messages are a
        user's own, one over their share of all messages, which need not be an integer.
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
        """The local guarantee of one answer, ln(1 + k (1 - gamma) / gamma), rounded up."""
        return math.log1p(float(self.k * (1 - self.gamma) / self.gamma)) * (1 + 1e-12)

    def divergence(self, epsilon: float) -> float:
        """Return an upper bound, a ten-millionth above the truth, of the hockey-stick divergence.

        Parameters
        ----------
        epsilon : float
            Any real; of order e^epsilon.
        """
        if not math.isfinite(epsilon):
            raise ValueError(f"epsilon must be finite, got {epsilon!r}")
        if epsilon < 0:  # H(e^-s) = 1 - e^-s + e^-s H(e^s), by the symmetry of x and x'
            swapped = -math.expm1(epsilon) + math.exp(epsilon) * self.divergence(-epsilon)
            return min(1.0, swapped * (1 + 2.0**-50))
        if self.gamma == 1 or epsilon >= self.local_epsilon:
            return 0.0
        return min(1.0, self.tails(epsilon)[2] * (1 + SLACK))

    def tails(self, epsilon: float, most_terms: int | None = None) -> tuple[float, float, float]:
        """Return the masses under x and under x' of a privacy loss above epsilon >= 0, and delta.

        To the precision of doubles; what the truncation leaves out is added to the first and to
        the last. TooManyTermsError where it takes more than ``most_terms``, or ``MAX_TERMS``.
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
        """Number of values of S that matter, with which the time of a divergence grows."""
        low, high = self._window(_FIRST_TAIL)
        return high - low

    def _window(self, tail: float) -> tuple[int, int]:
        """Return the range of S outside of which its size-biased law has at most mass ``tail``.

        By Chernoff: a binomial variable of mean u is below u - x with probability at most
        exp(-x^2 / (2 u)), and above u + x with at most exp(-x^2 / (2 u + 2 x / 3)).
        """
        mean = float(2 * self.gamma / self.k) * self.n
        wanted = -math.log(tail / 2)
        down = math.sqrt(2 * mean * wanted)
        up = wanted / 3 + math.sqrt(wanted * wanted / 9 + 2 * mean * wanted)
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
        weight = binom.pmf(s, n, 2 * gamma / k)
        # The event is B < edge = kappa S - slope C. Both are exact but for one rounding each. These
        # are relative errors of edge's parts, and the difference of edge and an integer may be
        # small beside them: near the local guarantee it is all that there is. So e^eps is lowered
        # by a part of 1e-13, which enlarges the divergence, and kappa by at least half that part:
        # for each part of odds it rises by odds / (1 + odds) (truth + 2 gamma) / (truth - gamma
        # (odds - 1)), at least odds / (1 + odds), of itself.
        odds = max(Fraction(1), Fraction(_exp_down(epsilon)) * _LOWERED)
        truth = (1 - self.gamma) * k
        kappa = (truth - self.gamma * (odds - 1)) / (truth * (1 + odds))
        slope = float(self.gamma * (odds - 1) / (truth * (1 + odds)))
        others = n - s
        pi = gamma * (1 - 2 / k) / (1 - 2 * gamma / k) if k > 2 else 0.0
        mu = others * pi
        most = s * float(kappa)  # kappa > 0: epsilon is below the local guarantee
        reach = _reach(mu, tail) if k > 2 else 0 * mu  # without other values C is 0
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
        partial = _lower_sums if first.max() <= _FEW or epsilon > _LARGE else _centred_sums
        within = partial(s, int(first.max()) if partial is _lower_sums else 0)
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
            centre = b if partial is _lower_sums else s / 2
            start = (most - centre) if partial is _lower_sums else s * float(kappa - _HALF)
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
_FEW = 64
_LARGE = 4.0
"""Up to so many values of B, or from this epsilon on, sums over B are taken term by term.

Centred at S / 2 they would cancel: at a large epsilon, or one near the local guarantee, the few
values of B that count are far from S / 2.
"""

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
    here = binom.pmf(values, s, 0.5)
    np.cumsum(here, axis=0, out=below[1:])
    np.cumsum(values * here, axis=0, out=seen[1:])
    short = np.zeros((most + 2, s.size))
    short[1:] = np.cumsum(below, axis=0)[:-1]  # the sum of P[B <= i] for i < b
    columns = np.arange(s.size)

    def at(b: NDArray[np.float64]) -> Partial:
        row = np.clip(b + 1, 0, most + 1).astype(np.int64)
        return below[row, columns], short[row, columns], seen[row, columns]

    return at


def _centred_sums(s: NDArray[np.float64], most: int) -> Callable[[NDArray[np.float64]], Partial]:
    """Return P[B <= b], E[s/2 - B; B <= b] and E[B; B <= b] for B ~ Bin(s, 1/2)."""
    del most

    def at(b: NDArray[np.float64]) -> Partial:
        inside = np.clip(b, 0, s - 1)
        below = np.where(b < 0, 0.0, betainc(s - inside, inside + 1, 0.5))
        short = np.where(b < 0, 0.0, (inside + 1) / 2 * binom.pmf(inside + 1, s, 0.5))
        return below, short, s / 2 * below - short

    return at


def _reach(mean: NDArray[np.float64], tail: float) -> NDArray[np.float64]:
    """Return x such that binomial variables are further than x from their means almost never."""
    wanted = -math.log(tail / 2)
    return np.asarray(wanted / 3 + np.sqrt(wanted * wanted / 9 + 2 * mean * wanted))


def _below(
    c: NDArray[np.float64], n: NDArray[np.float64], pi: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return P[C <= c] and E[C - n pi; C <= c] for C ~ Bin(n, pi)."""
    c = np.clip(c, -1, n)
    inside = np.clip(c, 0, np.maximum(n - 1, 0))
    cdf = np.where(c < 0, 0.0, np.where(c >= n, 1.0, betainc(n - inside, inside + 1, 1 - pi)))
    mean = -(c + 1) * (1 - pi) * binom.pmf(c + 1, n, pi)
    return cdf, np.where((c < 0) | (c >= n), 0.0, mean)


@lru_cache(maxsize=4096)
def blanket_divergence(epsilon: float, n: int, k: int | Fraction, gamma: Fraction) -> float:
    """Return the hockey-stick divergence of shuffled randomized response, rounded up.

    Exact, up to a ten-millionth of it, for an adversary who also knows which of the other users
    answered at random; an upper bound for one who sees the shuffled answers alone.

    Parameters
    ----------
    epsilon : float
        Of order e^epsilon.
    n : int
        Users who answer at random as they should.
    k : int or Fraction
        Values in the domain, at least 2, as of `ResponseBlanket`.
    gamma : Fraction
        Probability of a uniform answer.

    Examples
    --------
    >>> from fractions import Fraction
    >>> 9e-9 < blanket_divergence(1.0, 10**4, 7, Fraction(0.0399)) < 1e-8
    True
    """
    return ResponseBlanket(n, k, gamma).divergence(epsilon)
