"""How well shuffled messages hide which user added which part of Skellam noise.

The theorems and the proofs are in docs/skellam.md, "Hiding".
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import gmpy2
from gmpy2 import mpfr, mpq

from ikos.counts.hockey_stick import Divergences
from ikos.counts.largest_component import applies, largest_component
from ikos.counts.recursion import LONGEST_RECURSION, Moments, enclosed
from ikos.counts.share_graph import ShareGraph
from ikos.numeric.rounding import DOWN, UP, exact, rational, rounding

THEOREM = "hockey-stick bound by the second moment of the share graph, docs/skellam.md"

_ASYMPTOTIC = 64  # from here on, by the expansion of the Bessel function
_TERMS = 32
_MAX_COMPUTED_USERS = 8  # users in a component whose agreement is computed, and not only bounded

_ZERO, _INFINITE = mpfr(0), gmpy2.inf()


def return_chance(variance: Fraction, direction: int) -> mpfr:
    """Return P[X = 0] = e^-v I_0(v) for a Skellam variable X of variance v, rounded."""
    v = rational(variance)
    small = v < _ASYMPTOTIC
    count = _TERMS if not small else 60 + 4 * int(v)
    with rounding(direction):
        terms = [mpfr(1)]
        for k in range(count):
            ratio = (v / (2 * k + 2)) ** 2 if small else mpq((2 * k + 1) ** 2, 8 * k + 8) / v
            terms.append(terms[-1] * ratio)
        last = terms.pop()
        if direction == UP:
            terms.append(2 * last)
        decay = gmpy2.exp(exact(-variance, direction))
        if small:
            return gmpy2.fsum(terms) * decay
    with rounding(DOWN if direction == UP else UP):
        root, lost = gmpy2.sqrt(2 * gmpy2.const_pi() * v), gmpy2.exp(exact(-variance, UP))
    with rounding(direction):
        chance = gmpy2.fsum(terms) / root
        return chance + decay / 2 if direction == UP else chance - lost


def _beyond(q: int, variance: Fraction) -> mpfr:
    """Return an upper bound on P[abs(X) >= q], by Chernoff's bound."""
    v = rational(variance)
    with rounding(DOWN):
        fallen = q * gmpy2.asinh(q / v) + v
    with rounding(UP):
        return 2 * gmpy2.exp(gmpy2.sqrt(mpfr(v * v + q * q)) - fallen)


@lru_cache(maxsize=1 << 12)
def _agreement(q: int, variance: Fraction, together: int) -> mpfr:
    """Return an upper bound on P[X = 0 modulo q in each of several coordinates]."""
    with rounding(UP):
        return min(mpfr(1), return_chance(variance, UP) + _beyond(q, variance)) ** together


@lru_cache(maxsize=1 << 12)
def divergences(
    q: int, graph: ShareGraph, n: int, variance: Fraction, together: int, sums: int
) -> Divergences:
    """Return upper bounds on the second moments of several sums, of some coordinates each.

    ``variance`` is that of each coordinate's noise of n users together.
    """
    if n == 1:
        return Divergences(_ZERO, _ZERO)
    order, each = int(q**together), variance / n
    largest = _agreement(q, 2 * each * Fraction(n - 1, n), together)

    def apart(s: int, without: int) -> mpfr:
        """Return a bound on b(x_s) - b(y), with y for the noise of ``without`` users alone."""
        if min(s, n - s) > _MAX_COMPUTED_USERS:
            return largest
        with rounding(DOWN):
            low = return_chance(2 * each * without, DOWN) ** together
        with rounding(UP):
            return _agreement(q, 2 * each * Fraction(s * (n - s), n), together) - low

    def term(moments: Moments, s: int, gap: mpfr) -> mpfr:
        """Return a bound on f_s E[q^C Gamma] for the s users outside of a component."""
        with rounding(UP):
            unequal = moments.connected[s] * gap + moments.divergence[s] * 2 * largest
            return order * moments.weight[s] * unequal

    difference = several = _INFINITE
    negligible = False
    if applies(n, graph):
        part = largest_component(n, order, graph)
        several, negligible, terms = part.divergence(), part.negligible, []
        with rounding(UP):
            for j in range(1, part.cutoff):
                gap = mpfr(mpq(n - j, n)) * apart(j, j) + mpfr(mpq(j, n)) * apart(j, n - j)
                terms.append(term(part.moments, j, gap) / part.ratio[j])
            difference = gmpy2.fsum(terms) + 2 * largest * part.remainder
    if graph.hiding and n <= LONGEST_RECURSION and not negligible:
        moments = enclosed(n, order, graph)
        several, terms = min(several, moments.divergence[n]), []
        with rounding(UP):
            for s in range(1, n):
                rest = (n - s) * moments.connected[n - s] * moments.weight[n - s]
                terms.append(rest * term(moments, s, apart(s, s)))
            difference = min(difference, gmpy2.fsum(terms) / n / moments.weight_down[n])
    with rounding(UP):
        excess = largest * several
        whole = gmpy2.expm1(sums * gmpy2.log1p(excess))
        if not graph.clear_share:
            return Divergences(whole / 2, whole)
        grown = (1 + excess) ** (sums - 1) * (1 + sums * excess)
        return Divergences(sums * difference / 2 * grown, whole)
