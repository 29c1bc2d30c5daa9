"""Second moments of the share graph for any number of users, by its largest component.

Write B(n, j) = f_j f_(n-j) / f_n and phi_c(n) = f_(n-c+1) / f_n (`ikos.counts.share_graph`, where
f_1 = 1), e_j = E[q^C] on j users, and kappa = 1 + eps, where eps bounds the sum of
B(N, s) / B(N, 1) over 2 <= s <= N - 2 for every N: 11/10 if two messages hide, (2/3)^(h-3) / 2 if
h >= 3 do.

*Lemma.* With c parts, the sum Q_c(n) of f_(s_1) ... f_(s_c) / f_n over the compositions of n into
positive parts is at most c kappa^(c-1) phi_c(n); and P[C = c] <= Q_c(n) / c!.

*Theorem.* For 2 <= J and n >= (J+2)^2 / 4, with two or more messages that hide,

    E[q^(C-1); C >= 2] <=   sum_{j<J} B(n, j) e_j
                          + n B(n, J) sum_{c<J} q^c kappa^(c-1) phi_c(J) / (c-1)!
                          + sum_{c>J} (q kappa)^(c-1) phi_c(n) / (c-1)!.

The first line is over graphs with a component of more than n - J users and j users outside of it;
the others bound the rest. For a fixed J every term falls as n grows, so that the bound for n holds
for every larger number. Proofs: docs/message-counts.md, "Any number of users".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import mul

import gmpy2
from gmpy2 import mpfr, mpq

from ikos.counts.recursion import Moments, enclosed
from ikos.counts.share_graph import ShareGraph
from ikos.numeric.rounding import DOWN, UP, rounding

CUTOFFS = (2, 4, 8, 16, 32, 64)
_NEGLIGIBLE = 2.0**-60


def applies(n: int, graph: ShareGraph) -> bool:
    """Return whether the theorem covers n users."""
    return graph.hiding >= 2 and 4 * n >= (CUTOFFS[0] + 2) ** 2


def kappa(graph: ShareGraph, direction: int = UP) -> mpfr:
    """Return kappa, rounded in a direction."""
    with rounding(direction):
        if graph.hiding == 2:
            return mpfr(mpq(21, 10))
        return 1 + mpfr(mpq(2, 3)) ** (graph.hiding - 3) / 2


@dataclass(frozen=True)
class LargestComponent:
    """The theorem's parts at one cutoff J, with the recursion on up to J users.

    ``ratio`` has lower bounds on f_n / f_(n-j), j = 0..J; ``remainder`` is an upper bound on the
    second and third line.
    """

    n: int
    cutoff: int
    moments: Moments
    ratio: tuple[mpfr, ...]
    remainder: mpfr

    def divergence(self, *, connected: tuple[mpfr, ...] | None = None) -> mpfr:
        """Return an upper bound on E[q^(C-1); C >= 2] on n users.

        ``connected`` has those of P[C = 1] on n - j users, j = 0..J-1; without them the bound also
        holds for every larger number of users.
        """
        with rounding(UP):
            terms = [self.moments.colourings[j] / self.ratio[j] for j in range(1, self.cutoff)]
            if connected is not None:
                terms = list(map(mul, terms, connected[1:]))
            return gmpy2.fsum(terms) + self.remainder

    def excess(self) -> mpfr:
        """Return an upper bound on E[q^(C-1)] - 1."""
        moments = self.moments
        with rounding(UP):
            terms = [
                (moments.colourings[j] - moments.weight_down[j]) / self.ratio[j]
                for j in range(1, self.cutoff)
            ]
            return gmpy2.fsum(terms) + self.remainder

    @property
    def negligible(self) -> bool:
        """Whether the remainder is below 2^-60 of the main term."""
        with rounding(DOWN):
            return bool(self.remainder <= _NEGLIGIBLE * (self.divergence() - self.remainder))


@lru_cache(maxsize=1 << 12)
def largest_component(n: int, q: int, graph: ShareGraph) -> LargestComponent:
    """Return the theorem's parts at the first cutoff with a negligible remainder, or at the best.

    The remainder is infinite where the theorem's series are not seen to converge.
    """
    best: LargestComponent | None = None
    for cutoff in CUTOFFS:
        if 4 * n < (cutoff + 2) ** 2:
            break
        component = at_cutoff(n, q, graph, cutoff)
        if best is None or component.divergence() < best.divergence():
            best = component
        if best.negligible:
            break
    assert best is not None, "the theorem does not apply"
    return best


def at_cutoff(n: int, q: int, graph: ShareGraph, cutoff: int) -> LargestComponent:
    """Return the theorem's parts at one cutoff J, for n >= (J+2)^2 / 4."""
    moments = enclosed(cutoff, q, graph)
    with rounding(DOWN):
        steps = [graph.growth(n - i, DOWN) for i in range(cutoff)]
        ratio = tuple(accumulate(steps, mul, initial=mpfr(1)))
    factor = kappa(graph)
    with rounding(UP):
        colours = mpfr(q)
        # the second line: f_J phi_c(J) = f_(J-c+1) and B(n, J) / f_J = f_(n-J) / f_n
        term, terms = colours, []
        for c in range(1, cutoff):
            terms.append(term * moments.weight[cutoff - c + 1])
            term = term * colours * factor / c
        middle = n * gmpy2.fsum(terms) / ratio[cutoff]
        remainder = middle + _tail(n, q, graph, cutoff, colours * factor, ratio[cutoff])
    return LargestComponent(n, cutoff, moments, ratio, remainder)


def _tail(n: int, q: int, graph: ShareGraph, cutoff: int, base: mpfr, ratio: mpfr) -> mpfr:
    """Return an upper bound on the third line, base = q kappa and ratio = f_n / f_(n-J).

    Its terms T_c have ratios T_(c+1) / T_c = base / (c growth(n-c+1)), whose logarithm is convex in
    c. So ratios are at most 1/2 between two places where they are, and terms that fall at first
    fall until they rise for good: between two places they are at most the larger of those there.
    The last is T_(n-1); for c = n no edge joins two users, with probability 1 / (f_n n!).
    """
    first = cutoff + 1

    def halves(c: int) -> bool:
        with rounding(UP):
            return bool(base / c / graph.growth(n - c + 1, DOWN) <= 0.5)

    if not halves(first):
        return gmpy2.inf()
    length = next(
        d for d in (512, 64, 8, 1) if d == 1 or (first + d <= n and halves(first + d - 1))
    )
    with rounding(UP):
        start = base**cutoff / ratio / gmpy2.fac(cutoff)
    with rounding(DOWN):
        below = graph.log_weight(n, DOWN) + gmpy2.lngamma(mpfr(n - 1))
        rarity = graph.log_edgeless(n, DOWN)
    with rounding(UP):
        above = (n - 2) * gmpy2.log(base) + gmpy2.log(graph.growth(2, UP))
        last = gmpy2.exp(above - below)
        edgeless = gmpy2.exp((n - 1) * gmpy2.log(mpfr(q)) - rarity)
        return 2 * start + n * (start * mpfr(2) ** -length + last) + edgeless
