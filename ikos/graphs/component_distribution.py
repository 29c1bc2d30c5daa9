"""The exact distribution of the number of components C, in all four models.

With w(k, s) = (s/k) B(k, s) P[C_s = 1] the probability that user 1 of k shares its component with
s - 1 others (`ikos.counts.recursion`),

    P[C_k = c] = sum_s w(k, s) P[C_(k-s) = c - 1],      P[C_0 = 0] = 1,

where all terms are positive. It is computed in rationals, for comparison with enumerations; with
directed rounding, for proofs; and in floating point, for all c at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import mul

import gmpy2
import numpy as np
from gmpy2 import mpfr, mpq
from numpy.typing import NDArray

from ikos._validation import integer, quote
from ikos.concurrency import Progress
from ikos.counts.recursion import Moments, enclosed, rational
from ikos.counts.rounding import DOWN, UP, rounding
from ikos.counts.share_graph import ShareGraph
from ikos.graphs.share_graphs import Model

MAX_LAW_USERS = 2048
"""Most users for the exact distribution, which takes about two seconds in floating point."""

MAX_RATIONAL_USERS = 128
"""Most users for rationals, whose digits grow with the square of n."""

MAX_LAW_MESSAGES = 10_000
"""Most messages for it: all its numbers are within the exponents of MPFR, which end at 2^30."""

_ANY_ORDER = 2  # of the group: only the distribution of C is used


@dataclass(frozen=True)
class Enclosure:
    """Proved bounds on a number, of 256 binary digits and without underflow."""

    low: mpfr
    high: mpfr

    def __float__(self) -> float:
        """Return the upper bound, to the nearest float."""
        return float(self.high)

    def __str__(self) -> str:
        low, high = f"{self.low:.6g}", f"{self.high:.6g}"
        return high if low == high else f"[{self.low:.5Dg}, {self.high:.5Ug}]"


def _known(n: object, m: object, shuffler: object, clear_share: object) -> Model:
    """Check and return a model whose distribution can be computed."""
    model = Model.of(n, integer("m", m, high=MAX_LAW_MESSAGES), shuffler, clear_share)
    if model.n > MAX_LAW_USERS:
        raise ValueError(
            f"n must be at most {MAX_LAW_USERS} for the exact distribution, which takes time in "
            f"proportion to n^3, got {model.n}; bounds hold for any n"
        )
    return model


def component_pmf(
    n: int, m: int, *, shuffler: str = "parallel", clear_share: bool = True
) -> NDArray[np.float64]:
    """Return the exact distribution of the number of components.

    Parameters
    ----------
    n : int
        Users, from 1 to 2048.
    m, shuffler, clear_share
        As for `component_counts`.

    Returns
    -------
    (n,) ndarray of float64
        Entry c - 1 is P[C = c], with a relative error below 1e-9, of either sign, if it is above
        1e-290. Smaller entries are inexact, or 0.

    Examples
    --------
    >>> component_pmf(2, 2)
    array([0.75, 0.25])
    """
    model = _known(n, m, shuffler, clear_share)
    n = model.n
    moments, _, rooted = _rooted(n, model.graph)
    above, above_power = _scaled(rooted)
    weight, weight_power = _scaled(moments.weight)
    # row n - k is for k users, so that k - 1, ..., 0 users follow each other
    law = np.zeros((n + 1, n + 1))
    law[n, 0] = 1.0
    for k in range(1, n + 1):
        chances = np.ldexp(
            above[1 : k + 1] * weight[k - 1 :: -1][:k] / (k * weight[k]),
            (above_power[1 : k + 1] + weight_power[k - 1 :: -1][:k] - weight_power[k]).astype("i4"),
        )
        law[n - k, 1 : k + 1] = chances @ law[n - k + 1 :, :k]
    pmf: NDArray[np.float64] = law[0, 1:].copy()
    return pmf


def _scaled(values: Sequence[mpfr]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return numbers as products of a double and a power of two, which cannot underflow."""
    parts = [gmpy2.frexp(value) for value in values]
    mantissas = np.array([float(mantissa) for _, mantissa in parts])
    return mantissas, np.array([power for power, _ in parts], dtype=np.int64)


@lru_cache(maxsize=8)
def _rooted(n: int, graph: ShareGraph) -> tuple[Moments, list[mpfr], list[mpfr]]:
    """Return s f_s P[C_s = 1] for s = 0..n, rounded down and up."""
    moments = enclosed(n, _ANY_ORDER, graph)
    with rounding(DOWN):
        down = [s * moments.connected_down[s] * moments.weight_down[s] for s in range(n + 1)]
    with rounding(UP):
        up = [s * moments.connected[s] * moments.weight[s] for s in range(n + 1)]
    return moments, down, up


def laws(n: int, graph: ShareGraph, most: int) -> Iterator[list[Enclosure | None]]:
    """Yield, for c = 1..most, enclosures of P[C_k = c] for k = 0..n; None where k < c.

    For each k and c and in each direction, one sum of k products: f_k P[C_k = c] is the convolution
    of s f_s P[C_s = 1] with f_k P[C_k = c - 1], divided by k.
    """
    moments, rooted_down, rooted_up = _rooted(n, graph)
    down = up = [mpfr(1)] + [mpfr(0)] * n
    for c in range(1, most + 1):
        with rounding(DOWN):
            down = _next(rooted_down, down, c)
            lower = [p / w for p, w in zip(down, moments.weight, strict=True)]
        with rounding(UP):
            up = _next(rooted_up, up, c)
            upper = [min(p / w, 1) for p, w in zip(up, moments.weight_down, strict=True)]
        yield [
            Enclosure(low, high) if k >= c else None
            for k, (low, high) in enumerate(zip(lower, upper, strict=True))
        ]


def _next(rooted: list[mpfr], before: list[mpfr], c: int) -> list[mpfr]:
    """Return f_k P[C_k = c] for k = 0.. from the same for c - 1, in the current rounding mode."""
    result = [mpfr(0)] * c
    for k in range(c, len(before)):
        # s from 1 to k - c + 1: the other c - 1 components have at least as many users
        terms = map(mul, rooted[1 : k - c + 2], before[k - 1 :: -1])
        result.append(gmpy2.fsum(terms) / k)
    return result


def enclosed_law(
    n: int,
    m: int,
    most: int,
    *,
    shuffler: str = "parallel",
    clear_share: bool = True,
    progress: Progress | None = None,
) -> tuple[Enclosure, ...]:
    """Return proved enclosures of P[C = c] for c = 1..most, however small.

    Parameters
    ----------
    most : int
        The largest c, from 1 to n. Time is proportional to n^2 for each.
    n, m, shuffler, clear_share
        As for `component_pmf`.
    progress : callable, optional
        Called with the numbers of c done and in all.

    Examples
    --------
    >>> print(enclosed_law(100, 10, 100)[99])
    1.99509e-1580
    """
    model = _known(n, m, shuffler, clear_share)
    most = integer("most", most, low=1, high=model.n)
    found = []
    for column in laws(model.n, model.graph, most):
        entry = column[model.n]
        assert entry is not None  # c is at most n
        found.append(entry)
        if progress is not None:
            progress(len(found), most)
    return tuple(found)


def exact_component_law(
    n: int, m: int, *, shuffler: str = "parallel", clear_share: bool = True
) -> tuple[Fraction, ...]:
    """Return P[C = c] for c = 1..n as rationals, which add up to 1.

    The arguments are those of `component_pmf`, but n is at most 128.

    Examples
    --------
    >>> exact_component_law(3, 2)
    (Fraction(13, 18), Fraction(1, 4), Fraction(1, 36))
    """
    n = integer("n", n, low=1)
    if n > MAX_RATIONAL_USERS:
        raise ValueError(f"n must be at most {MAX_RATIONAL_USERS} for rationals, got {n}")
    moments = rational(n, _ANY_ORDER, Model.of(n, m, shuffler, clear_share).graph)
    law = [[mpq(1)]]
    for k in range(1, n + 1):
        chances = [moments.component(k, s) for s in range(1, k + 1)]
        row = [mpq(0)] * (k + 1)
        for s, chance in enumerate(chances, 1):
            for c, before in enumerate(law[k - s]):
                row[c + 1] += chance * before
        law.append(row)
    return tuple(Fraction(int(p.numerator), int(p.denominator)) for p in law[n][1:])


@dataclass(frozen=True)
class Moment:
    """``excess``: E[q^(C-1)] - 1, and ``divergence``: E[q^(C-1); C >= 2], both rounded up."""

    excess: mpfr
    divergence: mpfr


def component_moment(
    n: int, m: int, q: int, *, shuffler: str = "parallel", clear_share: bool = True
) -> Moment:
    """Return E[q^(C-1)] - 1 and E[q^(C-1); C >= 2], rounded up.

    The arguments are those of `component_pmf`, and the order q of the group, at least 2.

    Examples
    --------
    >>> moment = component_moment(10, 4, 2**8)
    >>> round(float(moment.excess), 6)
    0.314379
    """
    model = _known(n, m, shuffler, clear_share)
    n, q = model.n, integer("q", q, low=2)
    if n * q.bit_length() > 1 << 28:
        raise ValueError(f"q must be below 2^{(1 << 28) // n} for {n} users, got {quote(q)}")
    moments = enclosed(n, q, model.graph)
    return Moment(moments.excess[n], moments.divergence[n])
