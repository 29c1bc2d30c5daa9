"""A bound of P[C = c] by ordered partitions into parts, in all four models and for any n.

Let Q_c be the expected number of ordered partitions of the users into c unions of components; a
graph with c components has c! of them. Where two or more messages hide,

    P[C = c] <= Q_c / c! <= kappa^(c-1) phi_c(n) / (c-1)!,       phi_c(n) = f_(n-c+1) / f_n,

with the weights f of `ikos.counts.share_graph` and kappa of `ikos.counts.largest_component`. The
proof is in the documentation: How many messages, "Any number of users". The bound implies Lemma
C.5 of BBGN20, and is sharp to first order at c = 2, where kappa is near 1.
"""

from __future__ import annotations

import gmpy2
from gmpy2 import mpfr

from ikos._validation import choice, flag, integer
from ikos.counts.largest_component import kappa
from ikos.counts.rounding import DOWN, PRECISION, UP, float_up, rounding
from ikos.counts.share_graph import ShareGraph
from ikos.counts.types import MAX_MESSAGES, MAX_USERS
from ikos.trust import SHUFFLERS


def parts_bound(
    n: int, m: int, c: int, *, shuffler: str = "parallel", clear_share: bool = True
) -> float:
    """Return an upper bound of P[C = c].

    Parameters
    ----------
    n : int
        Users, at least 1.
    m : int
        Shuffled messages of each: at least 2 with a clear share, 3 without.
    c : int
        Components, from 1 to n.
    shuffler : {"parallel", "single"}
        A permutation of the users for each message, or one of all slots.
    clear_share : bool
        Whether a further message bypasses the shufflers.

    Returns
    -------
    float
        Rounded up, at most 1.

    Raises
    ------
    ValueError
        Where fewer than two messages hide.

    Examples
    --------
    Two components are about n^(1-m) likely:

    >>> print(f"{parts_bound(1000, 3, 2):.3e}, {parts_bound(10**9, 4, 2, shuffler='single'):.3e}")
    1.500e-06, 1.250e-28
    """
    users = integer("n", n, low=1, high=MAX_USERS)
    messages = integer("m", m, low=1, high=MAX_MESSAGES)
    graph = ShareGraph(
        messages, choice("shuffler", shuffler, SHUFFLERS), flag("clear_share", clear_share)
    )
    if graph.hiding < 2:
        raise ValueError(
            f"m must be at least {2 if graph.clear_share else 3} for this bound, got {messages}"
        )
    return float_up(upper_bound(users, graph, integer("c", c, low=1, high=users)))


def upper_bound(n: int, graph: ShareGraph, c: int) -> mpfr:
    """Return the bound, rounded up, without underflow."""
    digits = PRECISION + 2 * (n * graph.m).bit_length()
    with rounding(DOWN, digits):
        below = graph.log_weight(n, DOWN) + gmpy2.lngamma(mpfr(c))
    with rounding(UP, digits):
        above = (c - 1) * gmpy2.log(kappa(graph)) + graph.log_weight(n - c + 1, UP)
        exponent = above - below
    with rounding(UP):
        return min(mpfr(1), gmpy2.exp(exponent))


def falling_bounds(n: int, graph: ShareGraph, most: int) -> list[mpfr]:
    """Return the bound for c = 1..most, rounded down, without underflow."""
    factor = kappa(graph, DOWN)
    bounds = [mpfr(1)]
    for c in range(2, most + 1):
        with rounding(UP):
            divisor = (c - 1) * graph.growth(n - c + 2, UP)
        with rounding(DOWN):
            bounds.append(bounds[-1] * factor / divisor)
    return bounds
