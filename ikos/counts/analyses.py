"""The analyses that a count can rest on: one object and one entry in the table for each."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import gmpy2
from gmpy2 import mpfr

from ikos._validation import choice, flag, integer
from ikos.counts import hockey_stick, second_moment
from ikos.counts.published import Balle2020, Ghazi2020, Ishai2006
from ikos.counts.rounding import DOWN, UP, exact, log2, log2_e, rounding
from ikos.counts.share_graph import ShareGraph
from ikos.counts.types import (
    MAX_BITS,
    MAX_USERS,
    Analysis,
    Budget,
    GivenNoise,
    PrivacyProof,
    Scheme,
)
from ikos.trust import Trust

_graph = lru_cache(maxsize=1 << 10)(ShareGraph)
"""Each graph is checked once, though a search asks for it often."""


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

    def refusal(self, scheme: Scheme, m: int | None = None) -> str | None:
        return f"second_moment needs m >= 1, got m = {m}" if m == 0 else None

    def level(self, scheme: Scheme, m: int) -> float:
        graph = _graph(m, scheme.trust.shuffler, scheme.trust.clear_share)
        return second_moment.level(scheme.users, scheme.q, graph)

    def guess(self, scheme: Scheme, sigma: float) -> int:
        return max(second_moment.guess(n, scheme.q, sigma, scheme.trust) for n in scheme.users)

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

    def best(self, scheme: Scheme, m: int, budget: Budget) -> hockey_stick.Privacy | None:
        """Return the best proof of privacy for m shuffled messages, if there is any message.

        That is the one with the most left for the noise among those that reach delta, and where
        none does, the one with the smallest delta.
        """
        allowed = exact(budget.delta, DOWN)

        def preference(way: hockey_stick.Privacy) -> tuple[bool, float, float]:
            reached = bool(way.delta <= allowed)
            return not reached, -way.noise_epsilon if reached else 0.0, way.delta

        n, q, graphs = scheme.trust.min_honest, scheme.q, share_graphs(m, **scheme.trust.graph)
        ways = (hockey_stick.privacy(n, q, graph, budget) for graph in graphs)
        return min(ways, key=preference, default=None)

    def privacy(self, scheme: Scheme, m: int, budget: Budget) -> PrivacyProof | None:
        found = self.best(scheme, m, budget)
        return found if found is not None and found.delta < 1 else None

    def privacy_guess(self, scheme: Scheme, budget: Budget) -> int:
        """Return a count near the smallest; the second moments count e^epsilon times in delta."""
        bits = float(budget.epsilon) / math.log(2) - float(gmpy2.log2(exact(budget.delta, DOWN)))
        return max(2, self.guess(scheme, (1 + bits) / 2))

    def remaining_privacy(
        self, scheme: Scheme, m: int, noise: GivenNoise, delta: Fraction
    ) -> tuple[mpfr, mpfr, str]:
        allowed = exact(delta, DOWN)

        def preference(way: tuple[mpfr, mpfr]) -> tuple[bool, mpfr]:
            reached = bool(way[1] <= allowed)
            return not reached, way[0] if reached else way[1]

        ways = [(mpfr(noise.epsilon), mpfr(1))]
        jumps = hockey_stick.NoiseJumps(noise.users, noise.jumps)
        for graph in share_graphs(m, **scheme.trust.graph):
            moments = hockey_stick.divergences(scheme.q, graph, jumps)
            relative, reached = hockey_stick.least_relative(moments, noise.epsilon, delta)
            with rounding(UP):
                ways.append((noise.epsilon + 2 * gmpy2.log1p(relative), reached))
        return (*min(ways, key=preference), hockey_stick.THEOREM)


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


def checked_scheme(
    n: object,
    q: object,
    min_honest: int | None = None,
    corrupt_shufflers: int = 0,
    *,
    analysis: object = "best",
    shuffler: str = "parallel",
    clear_share: bool = True,
) -> Scheme:
    """Check what most functions of this package are given, and return it."""
    order = integer("q", q, low=2)
    if order.bit_length() > MAX_BITS:
        raise ValueError(f"q must be below 2**{MAX_BITS}, got one of {order.bit_length()} bits")
    users, name = integer("n", n, low=1, high=MAX_USERS), checked_analysis(analysis)
    clear_share = flag("clear_share", clear_share)
    trust = Trust.of(users, shuffler, clear_share, min_honest, corrupt_shufflers)
    return Scheme(users, order, trust, TABLE[name])
