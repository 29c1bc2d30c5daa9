"""Lower bounds: how many messages are too few for any proof.

The proof is in docs/message-counts.md, "What is left to gain".
"""

from __future__ import annotations

from fractions import Fraction

import gmpy2
from gmpy2 import mpfr

from ikos._validation import choice, flag, integer, number
from ikos.counts.share_graph import SHUFFLERS, share_graph
from ikos.numeric.rounding import DOWN, UP, exact, log2, rounding

MAX_SIGMA = 1e12


def _consistent(n: int, m: int, shuffler: str) -> mpfr:
    """Return the left side's logarithm to base 2, rounded up."""
    nats = share_graph(m, shuffler, True).log_edgeless(n, UP)
    with rounding(DOWN):
        ln2 = gmpy2.const_log2()
    with rounding(UP):
        return nats / ln2


def _growth(n: int, shuffler: str) -> mpfr:
    """Return an upper bound on the increase of log2 N by one more message.

    With a single shuffler N grows by prod_{j=1}^n (mn + j)/(m + 1), at most n^n.
    """
    if shuffler == "parallel":
        return _consistent(n, 1, shuffler)
    with rounding(UP):
        return n * log2(n, UP)


def _needed(n: int, q: int, sigma: Fraction) -> mpfr:
    """Return log2((1 - 2^-sigma) q^(n-1)), rounded down, for levels from tiny to huge."""
    with rounding(DOWN):
        nats = exact(sigma, DOWN) * gmpy2.const_log2()
    with rounding(UP):
        kept = gmpy2.expm1(-nats)
    with rounding(DOWN):
        return gmpy2.log2(-kept) + (n - 1) * log2(q, DOWN)


def counting_floor(
    n: int,
    q: int,
    sigma: float | Fraction,
    *,
    shuffler: str = "parallel",
    clear_share: bool = True,
) -> int:
    """Return the number of shuffled messages below which sigma bits of security are impossible.

    More may be needed: the bound shows how much a better proof could save at most. Rounded down.

    Parameters
    ----------
    n, q, shuffler, clear_share
        As for `ikos.security_level`; the bound is the same with a clear share and without.
    sigma : float
        Statistical security in bits, positive and at most 1e12, worst-case or average-case.

    Examples
    --------
    >>> counting_floor(1000, 2**64, 80)
    8
    """
    n, q = integer("n", n, low=1), integer("q", q, low=2)
    level = number("sigma", sigma, above=0, high=MAX_SIGMA)
    shuffler = choice("shuffler", shuffler, SHUFFLERS)
    flag("clear_share", clear_share)
    if n == 1:
        return 1
    needed, growth = _needed(n, q, level), _growth(n, shuffler)
    m = 1
    while True:
        with rounding(DOWN):
            missing = needed - _consistent(n, m, shuffler)
            if missing <= 0:
                return m
            # m is excluded, and so are the next counts, which add too little
            m += max(1, int(gmpy2.ceil(missing / growth)))
