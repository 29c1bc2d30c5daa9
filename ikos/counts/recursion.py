"""The exact second moments of the share graph, by the component of user 1.

The formulas are in docs/message-counts.md, "Exact values".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import mul
from typing import Any

import gmpy2
from gmpy2 import mpfr, mpq

from ikos._validation import integer
from ikos.counts.share_graph import ShareGraph
from ikos.numeric.rounding import DOWN, UP, rounding

LONGEST_RECURSION = 1024
"""Largest number of users for whom the recursion is run: about a third of a second."""


@dataclass(frozen=True)
class Moments:
    """Upper (and lower) bounds of c_k, f_k, f_k e_k, D_k and xi_k for k = 0..n users."""

    connected: tuple[mpfr, ...]
    connected_down: tuple[mpfr, ...]
    weight: tuple[mpfr, ...]
    weight_down: tuple[mpfr, ...]
    colourings: tuple[mpfr, ...]
    divergence: tuple[mpfr, ...]
    excess: tuple[mpfr, ...]


def fold(first: Sequence[Any], second: Sequence[Any], k: int, *, low: int, high: int) -> Any:
    """Return the sum of ``first[s] * second[k - s]`` over low <= s < high, rounded as in force."""
    return gmpy2.fsum(map(mul, first[low:high], second[k - low : k - high : -1]))


@lru_cache(maxsize=64)
def enclosed(n: int, q: int, graph: ShareGraph) -> Moments:
    """Return the recursion up to n users in directed rounding."""
    unit = mpfr(1)
    up, down = [unit], [unit]
    for k in range(1, n + 1):
        with rounding(UP):
            up.append(up[-1] * graph.growth(k, UP))
        with rounding(DOWN):
            down.append(down[-1] * graph.growth(k, DOWN))
    with rounding(UP):
        colours = mpfr(q)
    # entry s is s c_s f_s
    rooted, rooted_down = [mpfr(0)], [mpfr(0)]
    connected, connected_down = [mpfr(0)], [mpfr(0)]
    coloured, surplus = [unit], [mpfr(0)]
    divergence, excess = [mpfr(0)], [mpfr(0)]
    # where fewer than two messages hide, errors of the differences 1 - ... double with every k
    known = graph.hiding < 2
    for k in range(1, n + 1):
        if known:
            with rounding(DOWN):
                connected_down.append(graph.connected_weight(k, DOWN) / up[k])
            with rounding(UP):
                connected.append(graph.connected_weight(k, UP) / down[k])
        else:
            with rounding(UP):
                split_up = fold(rooted, up, k, low=1, high=k) / k / down[k]
            with rounding(DOWN):
                split_down = fold(rooted_down, down, k, low=1, high=k) / k / up[k]
                connected_down.append(max(mpfr(0), 1 - split_up))
            with rounding(UP):
                connected.append(min(1 - split_down, unit))
        with rounding(DOWN):
            rooted_down.append(k * connected_down[k] * down[k])
        with rounding(UP):
            rooted.append(k * connected[k] * up[k])
            rest = fold(rooted, coloured, k, low=1, high=k) / k
            divergence.append(rest / down[k])
            coloured.append(colours * (rest + connected[k] * up[k]))
            excess.append(fold(rooted, surplus, k, low=1, high=k) / k / down[k])
            surplus.append(coloured[k] - down[k])
    columns = (connected, connected_down, up, down, coloured, divergence, excess)
    return Moments(*map(tuple, columns))


@dataclass(frozen=True)
class RationalMoments:
    """Exact moments on k = 0..n users.

    In the order of the fields: P[C = 1], f_k, E[q^C], E[q^(C-1); C >= 2], E[q^(C-1)] - 1.
    """

    connected: tuple[mpq, ...]
    weight: tuple[mpq, ...]
    colourings: tuple[mpq, ...]
    divergence: tuple[mpq, ...]
    excess: tuple[mpq, ...]

    def component(self, k: int, s: int) -> mpq:
        """Return w(k, s)."""
        separated = self.weight[s] * self.weight[k - s] / self.weight[k]  # B(k, s)
        return mpq(s, k) * separated * self.connected[s]


def rational(n: int, q: int, graph: ShareGraph) -> RationalMoments:
    """Return the recursion up to n users in rational arithmetic; digits grow with n^2.

    Examples
    --------
    >>> rational(4, 2, ShareGraph(2, "single", False)).excess[4]
    mpq(29,35)
    """
    n, q, zero = integer("n", n, low=1), integer("q", q, low=1), mpq(0)
    weight, connected, colourings, divergence, excess = [mpq(1)], [zero], [mpq(1)], [zero], [zero]
    for k in range(1, n + 1):
        weight.append(weight[-1] * graph.growth_exactly(k))
        parts = [
            mpq(s, k) * weight[s] * weight[k - s] / weight[k] * connected[s] for s in range(1, k)
        ]
        connected.append(1 - sum(parts, zero))
        rest = colourings[:0:-1]
        divergence.append(sum(map(mul, parts, rest), zero))
        excess.append(divergence[k] - sum(parts, zero))
        colourings.append(q * (divergence[k] + connected[k]))
    columns = (connected, weight, colourings, divergence, excess)
    return RationalMoments(*map(tuple, columns))


def rational_split(n: int, q: int, graph: ShareGraph, k: int) -> mpq:
    """Return E[q^(C-1); a fixed set A of k users is split between components], exactly.

    Without a clear share, both the left and the right copies of A are. The others of A are all in
    a given member's component of s users with probability C(s-1, k-1) / C(n-1, k-1).
    """
    moments, n, q = rational(n, q, graph), int(n), int(q)
    k = integer("k", k, low=1, high=n)

    def together(r: int, s: int, members: int, known: int) -> mpq:
        """Return P[A within a given component of s of r users], ``known`` of A being in it."""
        if members > r:
            return mpq(0)
        return mpq(math.comb(s - known, members - known), math.comb(r - known, members - known))

    total = mpq(0)
    for s in range(1, n):
        rest = n - s
        apart = 1 - together(n, s, k, 1)
        if graph.clear_share:
            total += moments.component(n, s) * apart * moments.colourings[rest]
            continue
        inside, outside = together(n, s, k, 0), together(n, rest, k, 0)
        right = (1 - inside - outside) * moments.colourings[rest]
        for t in range(1, rest):
            split = (1 - together(rest, t, k, 1)) * moments.component(rest, t)
            right += outside * split * q * moments.colourings[rest - t]
        total += moments.component(n, s) * apart * right
    return total
