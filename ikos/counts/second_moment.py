"""The second-moment analysis: all four settings, every number of users.

The views of any two inputs with the same sum are within total variation sqrt(Delta / 2), with

    Delta = E[q^(C-1); C >= 2]

and C the components of the share graph (`ikos.counts.share_graph`): by the collision identity and
Cauchy-Schwarz. So sigma = (1 - log2 Delta) / 2, a bound: Cauchy-Schwarz loses. The proofs are in
docs/message-counts.md.

Delta is bounded in two ways: by a recursion in O(n^2) steps up to 1024 users, and, where two or
more messages hide, by a theorem for any n, which is faster; the better bound is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import gmpy2
from gmpy2 import mpfr

from ikos.counts import hockey_stick
from ikos.counts.largest_component import LargestComponent, applies, largest_component
from ikos.counts.recursion import LONGEST_RECURSION, enclosed
from ikos.counts.share_graph import ShareGraph
from ikos.counts.types import (
    MAX_MESSAGES,
    Analysis,
    Budget,
    FixedNoise,
    PrivacyProof,
    RemainingPrivacy,
    Scheme,
    Users,
)
from ikos.numeric.rounding import (
    DOWN,
    UP,
    exact,
    float_down,
    float_up,
    log2,
    log2_e,
    rational,
    rounding,
)
from ikos.numeric.search import smallest

THEOREM = "second moment of the share graph, docs/message-counts.md (machine-checked theorem)"
GIVEN_SUM = "second moment of the share graph given the sum, docs/message-counts.md"

_NEGLIGIBLE = 2.0**-30


@dataclass(frozen=True)
class DivergenceBound:
    """An upper bound on Delta, infinite where it is at least 2, and its method."""

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
    """Return an upper bound on Delta for every number of users between the two ends."""
    low, high = max(users[0], 2), users[1]
    if high < 2:
        return DivergenceBound(mpfr(0), "one user")
    if graph.hiding == 0 or _hopeless(low, q, graph):
        return _NOTHING
    any_size = _NOTHING
    if applies(low, graph):
        part = largest_component(low, q, graph)
        connected = _connected(part, graph) if low == high else None
        any_size = _by_largest(part, connected)
        if part.negligible and _sharp(low, graph):
            return any_size
    if low > LONGEST_RECURSION:
        return any_size
    top, beyond = _recursion_up_to(low, high, q, graph)
    recursion = DivergenceBound(max(enclosed(top, q, graph).divergence[low : top + 1]), "recursion")
    if top < high:
        recursion = max(recursion, beyond, key=lambda b: b.upper)
    return min(recursion, any_size, key=lambda b: b.upper)


def _by_largest(
    part: LargestComponent, connected: tuple[mpfr, ...] | None = None
) -> DivergenceBound:
    return DivergenceBound(part.divergence(connected=connected), "largest component", part.cutoff)


def _recursion_up_to(low: int, high: int, q: int, graph: ShareGraph) -> tuple[int, DivergenceBound]:
    """Return where a recursion that begins at low may end, and a bound beyond that."""
    for n in (*(2**k for k in range(2, 11)), LONGEST_RECURSION + 1):
        if low < n <= high and applies(n, graph):
            part = largest_component(n, q, graph)
            if n > LONGEST_RECURSION or (part.negligible and _sharp(n, graph)):
                return n - 1, _by_largest(part)
    return min(high, LONGEST_RECURSION), _NOTHING


def _some_user_alone(n: int, graph: ShareGraph) -> mpfr:
    """Return a lower bound on the probability of it, B(n, 1) (1 - B(n-1, 1) / 2)."""
    with rounding(UP):
        pairs = 1 / graph.growth(n - 1, DOWN) / 2
    with rounding(DOWN):
        return 1 / graph.growth(n, UP) * (1 - pairs)


def _hopeless(n: int, q: int, graph: ShareGraph) -> bool:
    """Return whether Delta is certainly at least 2, from either of two of its terms.

    The graph without edges between users, of probability 1 / (f_n n!) and with C = n; and graphs
    in which some user is alone, with C >= 2.
    """
    rarity = graph.log_edgeless(n, UP)
    with rounding(DOWN):
        colours = mpfr(q)
        if (n - 1) * gmpy2.log(colours) - rarity >= 1:
            return True
        return bool(colours * _some_user_alone(n, graph) >= 2)


def _connected(part: LargestComponent, graph: ShareGraph) -> tuple[mpfr, ...]:
    """Return upper bounds on P[C = 1] on n - j users, by the probability that no user is alone."""
    sizes = range(part.n, part.n - part.cutoff, -1)
    with rounding(UP):
        return tuple(1 - _some_user_alone(k, graph) if k >= 3 else mpfr(1) for k in sizes)


def _sharp(n: int, graph: ShareGraph) -> bool:
    """Return whether the theorem for any n leaves out terms of at most 2^-30 of the bound.

    It leaves out that the largest component is connected, but for users who are alone.
    """
    first, second = graph.growth(n, DOWN), graph.growth(n - 1, DOWN)
    with rounding(UP):
        left_out = (1 / first) ** 2 + graph.growth(2, UP) / first / second
        return bool(left_out <= _NEGLIGIBLE)


def _guess(scheme: Scheme, n: int, sigma: float) -> int:
    """Return a count near the smallest that proves sigma, from two terms of Delta.

    They are q B(n, 1) and that of the graph without edges; both only fall with m.
    """

    def enough(m: int) -> bool:
        graph = scheme.trust.share_graph(m)
        if not graph.hiding:
            return False
        with rounding(UP):
            colours, wanted = gmpy2.log(mpfr(scheme.q)), (1 - 2 * mpfr(sigma)) * gmpy2.const_log2()
            alone = colours - gmpy2.log(graph.growth(n, UP))
            nothing = (n - 1) * colours - graph.log_edgeless(n, UP)
            return bool(max(alone, nothing) <= wanted)

    return 1 if n == 1 else smallest(enough, 1, most=MAX_MESSAGES)


def _given_sum(scheme: Scheme, honest: int, m: int, sums: int = 1) -> mpfr:
    """Return the delta of hiding whatever the epsilon of the noise, 2^-sigma, rounded up."""
    sigma = replace(scheme.with_honest(honest), n=honest).level(m, sums)
    with rounding(UP):
        return gmpy2.exp2(-mpfr(sigma))


class SecondMoment(Analysis):
    """The second moment of the share graph: all settings, every number of users."""

    name = "second_moment"
    theorem = THEOREM
    private = True

    def refusal(self, scheme: Scheme, m: int | None = None) -> str | None:
        return f"needs m >= 1, got m = {m}" if m == 0 else None

    def level(self, scheme: Scheme, m: int) -> float:
        graph = scheme.trust.share_graph(m)
        return level(scheme.users, scheme.q, graph)

    def guess(self, scheme: Scheme, goal: float | Budget) -> int:
        """Return a count near the smallest; second moments count e^epsilon times in delta."""
        if not isinstance(goal, Budget):
            return max(_guess(scheme, n, goal) for n in set(scheme.users))
        hidden = -float_down(log2(goal.delta, DOWN))
        bits = min(hidden, (1 + float(goal.epsilon) / math.log(2) + hidden) / 2)
        return max(2, _guess(scheme, scheme.trust.min_honest, bits))

    def level_of_sums(self, sigma: float, sums: int) -> mpfr:
        """Return the better of the union bound and the product bound.

        The second loses (log d)/2 + (d - 1) 2^(-2 sigma) log e bits; docs/message-counts.md,
        "Vectors".
        """
        union = super().level_of_sums(sigma, sums)
        with rounding(UP):
            second = (sums - 1) * gmpy2.exp2(-2 * mpfr(sigma)) * log2_e(UP)
            lost = log2(sums, UP) / 2 + second
        with rounding(DOWN):
            return max(union, mpfr(sigma) - lost)

    def best(self, scheme: Scheme, m: int, budget: Budget) -> hockey_stick.Privacy | None:
        """Return the best proof of privacy for m shuffled messages; None without messages.

        That is, among those that reach delta, the one that leaves the most for the noise; if none
        does, the one with the smallest delta.
        """
        allowed = exact(budget.delta, DOWN)

        def preference(way: hockey_stick.Privacy) -> tuple[bool, float, float]:
            reached = bool(way.delta <= allowed)
            return not reached, -way.noise_epsilon if reached else 0.0, way.delta

        n, q, graphs = scheme.trust.min_honest, scheme.q, scheme.trust.share_graphs(m)
        proofs = (hockey_stick.privacy(n, q, graph, budget) for graph in graphs)
        return min(proofs, key=preference, default=None)

    def privacy(self, scheme: Scheme, m: int, budget: Budget) -> PrivacyProof | None:
        proof: PrivacyProof | None = self.best(scheme, m, budget)
        if proof is None or proof.delta > budget.delta:
            delta = float_up(_given_sum(scheme, scheme.trust.min_honest, m, budget.sums))
            if proof is None or delta < proof.delta:
                proof = PrivacyProof(delta, budget.whole, self.name, GIVEN_SUM)
        return proof if proof.delta < 1 else None

    def remaining_privacy(
        self, scheme: Scheme, m: int, noise: FixedNoise, delta: Fraction
    ) -> RemainingPrivacy:
        mean = hockey_stick.NoiseJumps.discrete_laplace(noise.users, noise.rate).mean
        with rounding(UP):
            jumps = hockey_stick.NoiseJumps(noise.users, mean * rational(noise.part))
        nothing = RemainingPrivacy(
            exact(Fraction(noise.epsilon), UP), mpfr(1), self.name, hockey_stick.THEOREM
        )
        proofs = [nothing]
        for graph in scheme.trust.share_graphs(m):
            moments = hockey_stick.divergences(scheme.q, graph, jumps)
            relative, reached = hockey_stick.least_relative(moments, noise.epsilon, delta)
            with rounding(UP):
                epsilon = noise.epsilon + 2 * gmpy2.log1p(relative)
            proofs.append(replace(nothing, epsilon=epsilon, delta=reached))
        given = _given_sum(scheme, noise.users, m)
        proofs.append(replace(nothing, delta=given, theorem=GIVEN_SUM))
        return min(proofs, key=lambda way: way.preference(delta))
