"""The second-moment analysis: all four settings, every number of users.

The views of any two inputs with the same sum are within total variation sqrt(Delta / 2), with

    Delta = E[q^(C-1); C >= 2]

and C the components of the share graph (`ikos.counts.share_graph`): by the collision identity and
Cauchy-Schwarz, with a clear share because shared inputs then are uniform and known, without one
for every input as it is. So sigma = (1 - log2 Delta) / 2. The proofs are in the documentation.

Delta is rounded up from two enclosures: a recursion in O(n^2) steps, and for two or more messages
that hide a theorem for any n, which is faster; the better of the two where the first is within
reach. The level is a bound all the same: Cauchy-Schwarz loses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import gmpy2
from gmpy2 import mpfr

from ikos.counts.largest_component import LargestComponent, applies, largest_component
from ikos.counts.recursion import enclosed
from ikos.counts.rounding import DOWN, UP, float_down, rounding
from ikos.counts.search import smallest
from ikos.counts.share_graph import ShareGraph
from ikos.counts.types import Users
from ikos.trust import Trust

THEOREM = "second moment of the share graph; documentation, How many messages"

LONGEST_RECURSION = 1024
"""Users for whom the recursion is run where it is needed: about a third of a second."""

_NEGLIGIBLE = mpfr(2) ** -40


@dataclass(frozen=True)
class DivergenceBound:
    """An upper bound of Delta, infinite where it is at least 2, and how it was found."""

    upper: mpfr
    method: str
    cutoff: int | None = None


_NOTHING = DivergenceBound(gmpy2.inf(), "nothing")


def level(users: Users, q: int, graph: ShareGraph) -> float:
    """Return the proved sigma for every number of users in a range, rounded down."""
    upper = bound(users, q, graph).upper
    if upper == 0:
        return math.inf
    with rounding(UP):
        bits = gmpy2.log2(upper)
    with rounding(DOWN):
        return max(0.0, float_down((1 - bits) / 2))


@lru_cache(maxsize=1 << 14)
def bound(users: Users, q: int, graph: ShareGraph) -> DivergenceBound:
    """Return an upper bound of Delta for every number of users between the two ends."""
    low, high = max(users[0], 2), users[1]
    if high < 2:
        return DivergenceBound(mpfr(0), "one user")
    if graph.hiding == 0 or _hopeless(low, q, graph):
        return _NOTHING
    any_size = DivergenceBound(gmpy2.inf(), "nothing")
    if applies(low, graph):
        found = largest_component(low, q, graph)
        connected = _connected(found, graph) if low == high else None
        any_size = DivergenceBound(
            found.divergence(connected=connected), "largest component", found.cutoff
        )
        if found.negligible and _sharp(low, graph):
            return any_size
    if low > LONGEST_RECURSION:
        return any_size
    top, beyond = _recursion_up_to(low, high, q, graph)
    recursion = DivergenceBound(max(enclosed(top, q, graph).divergence[low : top + 1]), "recursion")
    if top < high:
        recursion = max(recursion, beyond, key=lambda b: b.upper)
    return min(recursion, any_size, key=lambda b: b.upper)


def _recursion_up_to(low: int, high: int, q: int, graph: ShareGraph) -> tuple[int, DivergenceBound]:
    """Return where a recursion that begins at low may end, and a bound for what lies beyond."""
    for n in (*(2**k for k in range(2, 11)), LONGEST_RECURSION + 1):
        if low < n <= high and applies(n, graph):
            found = largest_component(n, q, graph)
            if n > LONGEST_RECURSION or (found.negligible and _sharp(n, graph)):
                return n - 1, DivergenceBound(found.divergence(), "largest component", found.cutoff)
    return min(high, LONGEST_RECURSION), _NOTHING


def _separated(n: int, s: int, graph: ShareGraph, direction: int) -> mpfr:
    """Return B(n, s), the expected number of sets of s users that nothing connects to the rest.

    For s of 1 or 2, rounded in a direction.
    """
    other = UP if direction == DOWN else DOWN
    with rounding(direction):
        value = 1 / graph.growth(n, other)
        if s == 2:
            value *= graph.growth(2, direction) / graph.growth(n - 1, other)
        return value


def _hopeless(n: int, q: int, graph: ShareGraph) -> bool:
    """Return whether Delta is certainly at least 2, from either of two of its terms.

    The graph without edges between users, of probability 1 / (f_n n!) and with C = n; and graphs
    in which some user is alone, of probability at least B(n, 1) (1 - B(n-1, 1) / 2), with C >= 2.
    """
    with rounding(UP):
        rarity = graph.log_edgeless(n, UP)
        pairs = _separated(n - 1, 1, graph, UP) / 2
    with rounding(DOWN):
        colours = mpfr(q)
        if (n - 1) * gmpy2.log(colours) - rarity >= 1:
            return True
        return bool(colours * _separated(n, 1, graph, DOWN) * (1 - pairs) >= 2)


def _connected(found: LargestComponent, graph: ShareGraph) -> tuple[mpfr, ...]:
    """Return upper bounds of P[C = 1] on n - j users, by the chance that no user is alone."""
    bounds = []
    for k in range(found.n, found.n - found.cutoff, -1):
        if k < 3:
            bounds.append(mpfr(1))
            continue
        with rounding(UP):
            pairs = _separated(k - 1, 1, graph, UP) / 2
        with rounding(DOWN):
            alone = _separated(k, 1, graph, DOWN) * (1 - pairs)
        with rounding(UP):
            bounds.append(1 - alone)
    return tuple(bounds)


def _sharp(n: int, graph: ShareGraph) -> bool:
    """Return whether what the theorem for any n leaves out is beyond 2^-40 of the bound.

    It leaves out that the largest component is connected, but for users who are alone.
    """
    with rounding(UP):
        left_out = _separated(n, 1, graph, UP) ** 2 + _separated(n, 2, graph, UP)
        return bool(left_out <= _NEGLIGIBLE)


def guess(n: int, q: int, sigma: float, trust: Trust) -> int:
    """Return a count near the smallest that proves sigma, from two terms of Delta.

    They are q B(n, 1) and that of the graph without edges; both only fall with m.
    """
    if n == 1:
        return 1
    copies, own = (1, 0) if trust.clear_share else (2, 1)
    colours, wanted = math.log2(q), 1 - 2 * sigma

    def log2_factorial(k: float) -> float:
        return math.lgamma(k + 1) / math.log(2)

    whole = log2_factorial(n)

    def enough(m: int) -> bool:
        hiding = m - own
        if not trust.single:
            alone = (1 - hiding) * math.log2(n)
            nothing = (1 - hiding) * whole
        else:
            slots = log2_factorial(m)
            alone = (
                copies * math.log2(n)
                + slots
                - math.fsum(math.log2(m * n - i) for i in range(min(m, 64)))
                - max(0, m - 64) * math.log2(max(1.0, m * n - (m + 63) / 2))
            )
            nothing = copies * whole + n * slots - log2_factorial(m * n)
        return colours + alone <= wanted and (n - 1) * colours + nothing - whole <= wanted

    return smallest(enough, 1)
