"""The share graph, whose components determine the analyzer's information.

Its definition, and the weights f_k from which all distributions of its components C come, are in
docs/message-counts.md, "The share graph" and "Exact values".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import gmpy2
from gmpy2 import mpfr, mpq

from ikos._validation import choice, flag, integer
from ikos.numeric.rounding import DOWN, PRECISION, UP, rounding

SHUFFLERS = ("parallel", "single")
"""One shuffler per shuffled message, or one for all of them."""

_MULTIPLIED_OUT = 256


@dataclass(frozen=True)
class ShareGraph:
    """The share graph of m shuffled messages per user.

    ``shuffler="parallel"`` is m independent permutations of the users, "single" one of all slots.
    Without a further message that bypasses them, a clear share, the graph is bipartite.
    """

    m: int
    shuffler: str
    clear_share: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "m", integer("m", self.m, low=1))
        choice("shuffler", self.shuffler, SHUFFLERS)
        object.__setattr__(self, "clear_share", flag("clear_share", self.clear_share))

    @property
    def hiding(self) -> int:
        """Number of messages that hide, m; without a clear share m - 1, as one takes its place."""
        return self.m if self.clear_share else self.m - 1

    @property
    def _copies(self) -> int:
        return 1 if self.clear_share else 2

    def growth(self, k: int, direction: int) -> mpfr:
        """Return f_k / f_(k-1) for k >= 1, rounded in a direction.

        It does not fall with k where ``hiding`` is at least 2.
        """
        with rounding(direction):
            if self.shuffler == "parallel":
                power = self.hiding - 1
                return mpfr(k) ** power if power >= 0 else mpfr(mpq(1, k))
            if self.m <= _MULTIPLIED_OUT:
                return mpfr(mpq(math.comb(self.m * k, self.m), k**self._copies))
        # ln C(mk, m), with digits to spare for the difference of logarithms of about mk ln(mk)
        digits = PRECISION + 2 * (self.m * k + 1).bit_length()
        with rounding(UP if direction == DOWN else DOWN, digits):
            divisor = gmpy2.lngamma(mpfr(self.m * (k - 1) + 1)) + gmpy2.lngamma(mpfr(self.m + 1))
        with rounding(direction, digits):
            slots = gmpy2.exp(gmpy2.lngamma(mpfr(self.m * k + 1)) - divisor)
        with rounding(direction):
            return slots / k**self._copies

    def growth_exactly(self, k: int) -> mpq:
        """Return f_k / f_(k-1) for k >= 1."""
        if self.shuffler == "parallel":
            return mpq(k) ** (self.hiding - 1)
        return mpq(math.comb(self.m * k, self.m), k**self._copies)

    def connected_weight(self, k: int, direction: int) -> mpfr:
        """Return f_k P[C = 1] for k >= 1, rounded in a direction; for ``hiding`` of at most 1.

        Where one message hides, components are cycles: the generating function of f_k P[C = 1] is
        the logarithm of that of f_k, which is 1/(1 - x), or (1 - 2x)^(-1/2) for a single shuffler
        without a clear share. Where none does, no two users are ever connected.
        """
        if self.hiding == 0:
            return mpfr(1 if k == 1 else 0)
        doubled = self.shuffler == "single" and not self.clear_share
        with rounding(direction):
            return mpfr(mpq(1 << (k - 1) if doubled else 1, k))

    def log_edgeless(self, n: int, direction: int) -> mpfr:
        """Return ln(f_n n!), rounded in a direction; for ``hiding`` of at least 1.

        1 / (f_n n!) is the probability that no edge joins two users, that is C = n.
        """
        with rounding(direction):
            return self.log_weight(n, direction) + gmpy2.lngamma(mpfr(n + 1))

    def log_weight(self, k: int, direction: int) -> mpfr:
        """Return ln f_k, rounded in a direction; for ``hiding`` of at least 1."""
        digits = PRECISION + 2 * (self.m * k + 1).bit_length()
        with rounding(direction, digits):
            users = gmpy2.lngamma(mpfr(k + 1))
            if self.shuffler == "parallel":
                return (self.hiding - 1) * users
        with rounding(UP if direction == DOWN else DOWN, digits):
            divisor = k * gmpy2.lngamma(mpfr(self.m + 1))
            divisor += self._copies * gmpy2.lngamma(mpfr(k + 1))
        with rounding(direction, digits):
            return gmpy2.lngamma(mpfr(self.m * k + 1)) - divisor


share_graph = lru_cache(maxsize=1 << 10)(ShareGraph)
"""Each graph is checked once, although searches use it often."""


def share_graphs(m: int, shuffler: str, clear_share: bool) -> list[ShareGraph]:
    """Return the graphs each of whose bounds holds for m shuffled messages."""
    graphs = [share_graph(m, shuffler, clear_share)] if m else []
    if not clear_share and m >= 2:
        # a clear share may be shuffled with the others
        graphs.append(share_graph(m - 1, shuffler, True))
    return graphs
