"""The analyses that a count can rest on: one object and one entry in the table for each."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import gmpy2
from gmpy2 import mpfr

from ikos._validation import choice
from ikos.counts import hockey_stick, second_moment
from ikos.counts.published import Balle2020, Ghazi2020, Ishai2006
from ikos.counts.rounding import DOWN, UP, exact, float_up, log2, log2_e, rounding
from ikos.counts.share_graph import ShareGraph
from ikos.counts.types import Analysis, Budget, GivenNoise, PrivacyProof, Users
from ikos.trust import Trust

_graph = lru_cache(maxsize=1 << 10)(ShareGraph)
"""Each setting is checked once, though a search looks up bounds that it knows very often."""


def share_graphs(m: int, shuffler: str, clear_share: bool) -> list[ShareGraph]:
    """Return the graphs whose bounds hold for m shuffled messages, each by itself."""
    graphs = [_graph(m, shuffler, clear_share)] if m else []
    if not clear_share and m >= 2:
        # a clear share may be shuffled with the others
        graphs.append(_graph(m - 1, shuffler, True))
    return graphs


class SecondMoment(Analysis):
    """The second moment of the share graph: all settings, every number of users."""

    name = "second_moment"
    theorem = second_moment.THEOREM
    private = True

    def refusal(self, n: int, m: int | None, trust: Trust) -> str | None:
        if m is not None and m < 1:
            return f"second_moment needs m >= 1, got m = {m}"
        return None

    def level(self, users: Users, q: int, m: int, trust: Trust) -> float:
        return second_moment.level(users, q, _graph(m, trust.shuffler, trust.clear_share))

    def guess(self, n: int, q: int, sigma: float, trust: Trust) -> int:
        return second_moment.guess(n, q, sigma, trust)

    def level_of_sums(self, sigma: float, sums: int) -> mpfr:
        """Return the better of the union bound and the product bound.

        The second loses (log d)/2 + (d - 1) 2^(-2 sigma) log e bits; documentation, How many
        messages, "Vectors".
        """
        union = super().level_of_sums(sigma, sums)
        with rounding(UP):
            second = (sums - 1) * gmpy2.exp2(-2 * mpfr(sigma)) * log2_e(UP)
            lost = log2(sums, UP) / 2 + second
        with rounding(DOWN):
            return max(union, mpfr(sigma) - lost)

    def ways(
        self, n: int, q: int, m: int, trust: Trust, budget: Budget
    ) -> list[tuple[ShareGraph, hockey_stick.Privacy]]:
        """Return the proofs of privacy for m shuffled messages, the best one first.

        That is the one with the most left for the noise among those that reach delta, and where
        none does, the one with the smallest delta.
        """
        allowed = exact(budget.delta, DOWN)

        def preference(way: tuple[ShareGraph, hockey_stick.Privacy]) -> tuple[bool, float, mpfr]:
            reached = bool(way[1].delta <= allowed)
            return not reached, -way[1].noise_epsilon if reached else 0.0, way[1].delta

        graphs = share_graphs(m, trust.shuffler, trust.clear_share)
        return sorted(
            ((graph, hockey_stick.privacy(n, q, graph, budget)) for graph in graphs),
            key=preference,
        )

    def privacy(self, n: int, q: int, m: int, trust: Trust, budget: Budget) -> PrivacyProof | None:
        found = self.ways(n, q, m, trust, budget)
        if not found or found[0][1].delta >= 1:
            return None
        best = found[0][1]
        return PrivacyProof(float_up(best.delta), best.noise_epsilon, hockey_stick.THEOREM)

    def privacy_guess(self, n: int, q: int, trust: Trust, budget: Budget) -> int:
        """Return a count near the smallest; the second moments count e^epsilon times in delta."""
        bits = float(budget.epsilon) / math.log(2) - float(gmpy2.log2(exact(budget.delta, DOWN)))
        return max(2, self.guess(n, q, (1 + bits) / 2, trust))

    def remaining_privacy(
        self, q: int, m: int, trust: Trust, noise: GivenNoise, delta: Fraction
    ) -> tuple[mpfr, mpfr, str]:
        best = mpfr(noise.epsilon), mpfr(1)
        jumps = hockey_stick.NoiseJumps(noise.users, noise.jumps)
        for graph in share_graphs(m, trust.shuffler, trust.clear_share):
            moments = hockey_stick.divergences(q, graph, jumps)
            relative, reached = hockey_stick.least_relative(moments, noise.epsilon, delta)
            with rounding(UP):
                way = noise.epsilon + 2 * gmpy2.log1p(relative), reached
            best = min(best, way, key=lambda way: _preference(way, delta))
        return (*best, hockey_stick.THEOREM)


def _preference(way: tuple[mpfr, mpfr], delta: Fraction) -> tuple[bool, mpfr]:
    reached = bool(way[1] <= exact(delta, DOWN))
    return not reached, way[0] if reached else way[1]


TABLE: dict[str, Analysis] = {
    analysis.name: analysis for analysis in (SecondMoment(), Balle2020(), Ghazi2020(), Ishai2006())
}
"""Every analysis by its name, the tightest first."""

ANALYSES = tuple(TABLE)
"""Names of the analyses, the tightest first."""

BEST = "second_moment"
"""What ``analysis="best"`` stands for: of the analyses, the one that proves the most."""


def checked_analysis(analysis: object) -> str:
    """Check and return the name of an analysis; "exact" is an older name of "best"."""
    name = choice("analysis", analysis, ("best", *ANALYSES, "exact"))
    return BEST if name in ("best", "exact") else name
