"""Differential privacy of the private sum from the share graph, without a detour through sigma.

The theorem, its c, Delta_A and xi, and the proofs are in docs/message-counts.md, "Differential
privacy" and "Vectors".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import gmpy2
from gmpy2 import mpfr, mpq

from ikos.counts.largest_component import LargestComponent, applies, largest_component
from ikos.counts.recursion import LONGEST_RECURSION, Moments, enclosed
from ikos.counts.share_graph import ShareGraph
from ikos.counts.types import Budget, PrivacyProof
from ikos.numeric.rounding import DOWN, UP, exact, float_down, float_up, rounding
from ikos.numeric.search import halve

THEOREM = "hockey-stick bound by the second moment of the share graph, docs/message-counts.md"

_ZERO, _ONE = mpfr(0), mpfr(1)
_INFINITE = gmpy2.inf()


@dataclass(frozen=True)
class NoiseJumps:
    """The noise's jumps, on n users; ``mean`` is an upper bound on their mean number, 2 lambda.

    The probability that A is split grows with the mean, so that the bounds hold for the true mean.
    """

    n: int
    mean: mpfr

    @classmethod
    def discrete_laplace(cls, n: int, rate: Fraction, count: int = 1) -> NoiseJumps:
        """Return the jumps of ``count`` independent discrete Laplace variables, exp(-rate |k|)."""
        with rounding(UP):
            jump = -gmpy2.expm1(-exact(rate, DOWN))  # at most 1 - exp(-rate)
        with rounding(DOWN):
            log = gmpy2.log(jump)
        with rounding(UP):
            return cls(n, -2 * count * log)

    def spared(self, users: int, direction: int) -> mpfr:
        """Return the probability that no jump falls on any of these users."""
        with rounding(UP if direction == DOWN else DOWN):
            hits = self.mean * users / self.n
        with rounding(direction):
            return gmpy2.exp(-hits)

    def hit(self, users: int) -> mpfr:
        """Return an upper bound on the probability that a jump falls on any of these users."""
        with rounding(UP):
            hits = self.mean * users / self.n
        with rounding(DOWN):
            return -gmpy2.expm1(-hits)

    def split(self, j: int) -> mpfr:
        """Return an upper bound on P[A meets a uniformly random set of j users and the others]."""
        with rounding(UP):
            inside = mpfr(mpq(j, self.n)) * self.hit(self.n - j)
            return inside + mpfr(mpq(self.n - j, self.n)) * self.hit(j)

    def within(self, j: int) -> mpfr:
        """Return an upper bound on P[A is within a uniformly random set of j, not i alone]."""
        with rounding(UP):
            chance = self.spared(self.n - j, UP) - self.spared(self.n - 1, DOWN)
            return max(_ZERO, chance) * mpfr(mpq(j, self.n))

    def met_twice(self, j: int) -> mpfr:
        """Return an upper bound on P[A, not i alone, meets both of two independent such sets].

        With K users in A, P[meets one | K] is at most K j / n; K - 1 is binomial.
        """
        n = self.n
        with rounding(UP):
            others = (n - 1) * self.hit(1)
            pairs = others * others * mpfr(mpq(n - 2, n - 1))
            second = 1 + 3 * others + pairs  # E K^2 = 1 + 2 EB + EB^2, B = K - 1 binomial
            moment = max(_ZERO, second - self.spared(n - 1, DOWN))
            return moment * mpfr(mpq(j, n)) ** 2


@dataclass(frozen=True)
class Divergences:
    """Upper bounds on the two second moments: Delta_A averaged over the noise, and xi."""

    difference: mpfr
    excess: mpfr

    def of_sums(self, sums: int, graph: ShareGraph) -> Divergences:
        """Return the second moments of separate sums together."""
        if sums == 1:
            return self
        with rounding(UP):
            others = (1 + self.excess) ** (sums - 1)
            pairs = sums if graph.clear_share else sums * sums
            together = gmpy2.expm1(sums * gmpy2.log1p(self.excess))
            return Divergences(pairs * self.difference * others, together)


def divergences(q: int, graph: ShareGraph, noise: NoiseJumps) -> Divergences:
    """Return upper bounds on Delta_A and xi for the users who share the noise."""
    n = noise.n
    if n == 1:
        return Divergences(_ZERO, _ZERO)
    difference = excess = _INFINITE
    if applies(n, graph):
        part = largest_component(n, q, graph)
        difference, excess = _difference(part, q, graph, noise), part.excess()
        with rounding(UP):
            little = part.remainder <= difference * mpfr(2) ** -30
        if part.negligible and little:  # the recursion could gain next to nothing
            return Divergences(difference, excess)
    if graph.hiding and n <= LONGEST_RECURSION:
        moments = enclosed(n, q, graph)
        difference = min(difference, _component_of_i(moments, noise))
        excess = min(excess, moments.excess[n])
    return Divergences(difference, excess)


def any_noise(q: int, graph: ShareGraph, n: int, sums: int) -> Divergences:
    """Return upper bounds for several sums with any noise.

    The view is compared with one that is drawn given the noisy sums: docs/skellam.md, "Without a
    clear share", which holds with one as well, and with 1 for the probability that noises agree.
    """
    excess, settled = (_ZERO, True) if n == 1 else (_INFINITE, False)
    if n > 1 and applies(n, graph):
        part = largest_component(n, q, graph)
        excess = part.excess()
        with rounding(UP):  # the recursion could gain next to nothing
            settled = part.negligible and part.remainder <= excess * mpfr(2) ** -30
    if not settled and graph.hiding and n <= LONGEST_RECURSION:
        excess = min(excess, enclosed(n, q, graph).excess[n])
    with rounding(UP):
        whole = gmpy2.expm1(sums * gmpy2.log1p(excess))
        return Divergences(whole / 2, whole)


def _difference(part: LargestComponent, q: int, graph: ShareGraph, noise: NoiseJumps) -> mpfr:
    """Return the bound of Delta_A by the largest component; j users are outside of it.

    A is split if it meets both sides, or if it is in the small side, which has two components:
    E[q^C; C >= 2] = q D_j. Without a clear share this is for the left copies alone; and both the
    left and the right copies of A, which is not i alone, must meet the small side.
    """
    moments, terms = part.moments, []
    with rounding(UP):
        for j in range(1, part.cutoff):
            several = q * moments.divergence[j] * moments.weight[j]
            term = moments.colourings[j] * noise.split(j) + several * noise.within(j)
            if not graph.clear_share:
                term = min(term, moments.colourings[j] * noise.met_twice(j))
            terms.append(term / part.ratio[j])
        return gmpy2.fsum(terms) + part.remainder


def _component_of_i(moments: Moments, noise: NoiseJumps) -> mpfr:
    """Return a bound on Delta_A over the component of user i, exact with a clear share.

    Without one it is for the left copies alone; the right ones must be split too.
    """
    n = noise.n
    terms = []
    with rounding(UP):
        for s in range(1, n):
            weight = s * moments.connected[s] * moments.weight[s]
            terms.append(weight * moments.colourings[n - s] * noise.hit(n - s))
        return gmpy2.fsum(terms) / n / moments.weight_down[n]


@dataclass(frozen=True)
class Privacy(PrivacyProof):
    """The proof by one graph, with c = ``relative``: noise_epsilon + 2 ln(1 + c) <= epsilon."""

    relative: mpfr
    divergences: Divergences
    graph: ShareGraph


@lru_cache(maxsize=1 << 12)
def privacy(n: int, q: int, graph: ShareGraph, budget: Budget) -> Privacy:
    """Return the proof for n users, with nearly the least c that reaches delta, or the best c."""
    epsilon, reserve = budget.epsilon, budget.reserve

    def at(noise_epsilon: float, relative: mpfr | None = None) -> Privacy:
        """Return the proof with a c, by default with the largest."""
        rate = Fraction(noise_epsilon) / budget.sensitivity
        noise = NoiseJumps.discrete_laplace(n, rate, budget.dimension)
        moments = divergences(q, graph, noise).of_sums(budget.sums, graph)
        if relative is None:
            with rounding(DOWN):
                relative = gmpy2.expm1(exact(epsilon - Fraction(noise_epsilon), DOWN) / 2)
        delta = float_up(_delta(moments, relative, noise_epsilon))
        return Privacy(delta, noise_epsilon, "second_moment", THEOREM, relative, moments, graph)

    allowed, whole = exact(budget.delta, DOWN), budget.whole
    untouched = at(whole, _ZERO)
    least = float_up(exact(epsilon * (1 - reserve), UP))
    if untouched.delta <= allowed or least >= whole:
        return untouched
    with rounding(UP):
        cap = gmpy2.expm1((exact(epsilon, UP) - least) / 2)

    def noise_epsilon(relative: mpfr) -> float:
        with rounding(DOWN):
            remaining = exact(epsilon, DOWN) - 2 * gmpy2.log1p(relative)
        return min(whole, max(least, float_down(remaining)))

    # From the largest c to the best one: sqrt(2 Delta_A / xi) is best for fixed moments, and falls
    # with c, because more noise makes more jumps.
    best = tried = at(least)
    for _ in range(8):
        if not tried.divergences.excess:
            break
        with rounding(UP):
            ratio = tried.divergences.difference / tried.divergences.excess
            optimum = min(cap, gmpy2.sqrt(2 * ratio))
            lower = optimum < tried.relative * 0.999
        if not lower:
            break
        tried = at(noise_epsilon(optimum))
        best = min(best, tried, key=lambda p: p.delta)
    if best.delta > allowed:
        return min(best, untouched, key=lambda p: p.delta)
    # Twice: the moments are those of more noise, and hold for less.
    for _ in range(2):
        high = best.relative
        with rounding(UP):
            low = high / 2**20

        def reaches(c: mpfr, moments: Divergences = best.divergences) -> bool:
            return bool(_delta(moments, c, noise_epsilon(c)) <= allowed)

        high = halve(reaches, high, low, _geometric_mean, steps=24)
        closer = at(noise_epsilon(high))
        if closer.delta <= allowed:
            best = closer
    return best


def _delta(moments: Divergences, relative: mpfr, noise_epsilon: float) -> mpfr:
    """Return the theorem's delta, rounded up and at most 1."""
    if not (moments.difference < _INFINITE and moments.excess < _INFINITE):
        return _ONE
    with rounding(UP):
        grown = gmpy2.exp(mpfr(noise_epsilon))
        if relative <= 0:
            return min(_ONE, (1 + grown) * gmpy2.sqrt(moments.difference / 2))
        root = gmpy2.sqrt(moments.difference / 2 / relative)
        root += gmpy2.sqrt(relative * moments.excess / 4)
        return min(_ONE, root * root * (1 + (1 + relative) * grown))


def least_relative(moments: Divergences, level: float, delta: Fraction) -> tuple[mpfr, mpfr]:
    """Return the least c that reaches delta, or the best one, and the delta that it proves.

    The noise alone is ``level``-private: the whole guarantee is (level + 2 ln(1+c), delta).
    """
    allowed = exact(delta, DOWN)
    untouched = _delta(moments, _ZERO, level)
    if untouched <= allowed or not moments.difference or not moments.excess:
        return _ZERO, untouched
    with rounding(UP):
        optimum = gmpy2.sqrt(2 * moments.difference / moments.excess)
    if not gmpy2.is_regular(optimum):  # zero, infinite or NaN
        return _ZERO, untouched

    def proved(c: mpfr) -> mpfr:
        return _delta(moments, c, level)

    best, high = _some_relative(proved, optimum, allowed)
    if best > allowed:
        return (_ZERO, untouched) if untouched <= best else (high, best)
    with rounding(UP):
        low = high / 2
    high = halve(lambda c: proved(c) <= allowed, high, low, _mean, steps=40)
    return high, proved(high)


def _some_relative(
    proved: Callable[[mpfr], mpfr], optimum: mpfr, allowed: mpfr
) -> tuple[mpfr, mpfr]:
    """Return a delta and its c: within a factor of 2 of the least that reaches delta, or the best.

    (1 + c) e^level in delta moves the best c below the optimum of eta where that is not small.
    """
    with rounding(UP):
        candidates = [optimum / 2**k for k in range(64)]
    tried = [(proved(c), c) for c in candidates]
    best, high = next((pair for pair in reversed(tried) if pair[0] <= allowed), min(tried))
    step = 1.0
    while best > allowed and step > 2.0**-20:  # the least is within a factor of 2
        step /= 2
        with rounding(UP):
            near = [high * gmpy2.exp2(step), high * gmpy2.exp2(-step)]
        best, high = min((best, high), *((proved(c), c) for c in near))
    return best, high


def _mean(a: mpfr, b: mpfr) -> mpfr:
    with rounding(UP):
        return (a + b) / 2


def _geometric_mean(a: mpfr, b: mpfr) -> mpfr:
    with rounding(UP):
        return gmpy2.sqrt(a * b)
