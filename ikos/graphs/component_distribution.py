"""The exact distribution of the number of components C, in all four models.

With w(k, s) = (s/k) B(k, s) P[C_s = 1] the probability that user 1 of k shares its component with
s - 1 others (`ikos.counts.recursion`),

    P[C_k = c] = sum_s w(k, s) P[C_(k-s) = c - 1],      P[C_0 = 0] = 1,

where all terms are positive. It is computed in rationals, for comparison with enumerations; with
directed rounding, for proofs; and in floating point, for all c at once. With many users, one
component has nearly all of them: directed rounding then needs only the users outside of it, if two
messages hide. If fewer hide, components are cycles, closed one user after the other. Proofs:
docs/random-graphs.md, "Many users".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, islice, repeat
from operator import mul

import gmpy2
import numpy as np
from gmpy2 import mpfr, mpq
from numpy.typing import NDArray

from ikos._validation import MAX_COUNTED_USERS, InvalidValue, integer, quote
from ikos.counts.recursion import Moments, enclosed, fold, rational
from ikos.counts.share_graph import ShareGraph
from ikos.graphs.share_graphs import Model
from ikos.numeric.rounding import DOWN, NEAREST, PRECISION, UP, nearest, rounding
from ikos.primitives.concurrency import Progress

MAX_LAW_USERS = 2048
"""Largest n for the distribution of all numbers of components: four seconds in floating point."""

MAX_LAW_COMPONENTS = 128
"""Largest number of components in the distribution for more users."""

MAX_CYCLE_USERS = 10**6
"""Largest n for it where fewer than two messages hide: about five seconds."""

MAX_RATIONAL_USERS = 128
"""Largest n for rationals, whose digits grow with the square of n."""

MAX_LAW_MESSAGES = 10_000
"""Largest m for it: all its numbers are within the exponents of MPFR, which end at 2^30."""

_ANY_ORDER = 2  # order of the group: only the distribution of C is used


@dataclass(frozen=True)
class Enclosure:
    """Proved bounds on a number, of 256 binary digits and without underflow."""

    low: mpfr
    high: mpfr

    def __float__(self) -> float:
        """Return the upper bound, to the nearest float."""
        return nearest(self.high)

    def __str__(self) -> str:
        low, high = f"{self.low:.6Ng}", f"{self.high:.6Ng}"
        return high if low == high else f"[{self.low:.5Dg}, {self.high:.5Ug}]"


def _known(n: object, m: object, shuffler: object, clear_share: object) -> Model:
    """Check and return a model whose distribution can be computed."""
    model = Model.of(n, integer("m", m, high=MAX_LAW_MESSAGES), shuffler, clear_share)
    if model.n > MAX_LAW_USERS:
        raise InvalidValue(
            "n",
            f"must be at most {MAX_LAW_USERS} for all numbers of components, which take time in "
            f"proportion to n^3, got {model.n}; enclosed_law has the first few for any n",
        )
    return model


@np.errstate(under="ignore")
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
    distribution = np.zeros((n + 1, n + 1))
    distribution[n, 0] = 1.0
    for k in range(1, n + 1):
        chances = np.ldexp(
            above[1 : k + 1] * weight[k - 1 :: -1][:k] / (k * weight[k]),
            (above_power[1 : k + 1] + weight_power[k - 1 :: -1][:k] - weight_power[k]).astype("i4"),
        )
        distribution[n - k, 1 : k + 1] = chances @ distribution[n - k + 1 :, :k]
    pmf: NDArray[np.float64] = distribution[0, 1:].copy()
    return pmf


def _scaled(values: Sequence[mpfr]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return numbers as products of a double and a power of two, which cannot underflow."""
    with rounding(NEAREST, 53):
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
    """Yield, for c = 1..most, enclosures of P[C_k = c] for k = 0..n; None where k < c."""
    moments = _rooted(n, graph)[0]
    for c, (down, up) in enumerate(islice(_columns(n, graph, most), 1, None), 1):
        with rounding(DOWN):
            lower = [p / w for p, w in zip(down, moments.weight, strict=True)]
        with rounding(UP):
            upper = [min(p / w, 1) for p, w in zip(up, moments.weight_down, strict=True)]
        yield [
            Enclosure(low, high) if k >= c else None
            for k, (low, high) in enumerate(zip(lower, upper, strict=True))
        ]


def _columns(n: int, graph: ShareGraph, most: int) -> Iterator[tuple[list[mpfr], list[mpfr]]]:
    """Yield, for c = 0..most, f_k P[C_k = c] for k = 0..n, rounded down and up.

    For each k and c and in each direction, one sum of k products: it is the convolution of
    s f_s P[C_s = 1] with f_k P[C_k = c - 1], divided by k.
    """
    _, rooted_down, rooted_up = _rooted(n, graph)
    down = up = [mpfr(1)] + [mpfr(0)] * n
    yield down, up
    for c in range(1, most + 1):
        with rounding(DOWN):
            down = _next(rooted_down, down, c)
        with rounding(UP):
            up = _next(rooted_up, up, c)
        yield down, up


def _next(rooted: list[mpfr], before: list[mpfr], c: int) -> list[mpfr]:
    """Return f_k P[C_k = c] for k = 0.. from the same for c - 1, in the current rounding mode."""
    result = [mpfr(0)] * c
    for k in range(c, len(before)):
        # s from 1 to k - c + 1: the other c - 1 components have at least as many users
        terms = map(mul, rooted[1 : k - c + 2], before[k - 1 :: -1])
        result.append(gmpy2.fsum(terms) / k)
    return result


def weights(graph: ShareGraph, first: int, last: int, direction: int) -> list[mpfr]:
    """Return f_k / f_first for k = first..last, rounded in a direction."""
    with rounding(direction):
        growth = (graph.growth(k, direction) for k in range(first + 1, last + 1))
        return list(accumulate(growth, mul, initial=mpfr(1)))


def cutoff(n: int, graph: ShareGraph, parts: int) -> int | None:
    """Return a J from c to n/5 for which `overlooked` is negligible, for c >= 2; else None.

    That is, if at least two messages hide, at most 2^-256 of f_(n-c+1) / (f_n (c-1)!), which is the
    expected number of divisions into c - 1 users alone and a part of all others.
    """
    with rounding(UP):
        share = mpfr(gmpy2.bincoef(n - 1, parts - 1)) / parts
        for cut in range(parts, n // 5 + 1):
            share *= graph.growth(cut - parts + 2, UP) / graph.growth(n - cut + 1, UP)
            if share <= 2.0**-PRECISION:
                return cut
    return None


def overlooked(n: int, c: int, weight: mpfr, ratio: mpfr) -> mpfr:
    """Bound the expected divisions into c unions of components of at most n - J users each.

    2 <= c <= J <= n/2; ``weight`` and ``ratio`` are upper bounds on f_(J-c+2) and f_(n-J) / f_n.
    """
    with rounding(UP):
        return gmpy2.bincoef(n - 1, c - 1) * weight * ratio / gmpy2.fac(c)


def _by_largest(n: int, graph: ShareGraph, most: int, cut: int) -> Iterator[Enclosure]:
    """Yield enclosures of P[C = c], c = 1..most, by the fewer than J users outside the largest."""
    small_down, small_up = (weights(graph, 0, cut, way) for way in (DOWN, UP))
    first, last = n - 3 * cut, 3 * cut
    down, up = (weights(graph, first, n, way) for way in (DOWN, UP))
    # times P[C = 1], on which there is no bound at first
    connected_down, connected_up = [mpfr(0)] * len(down), up.copy()
    for t in range(cut, last + 1):
        with rounding(UP):
            split = fold(small_up, connected_up, t, low=1, high=cut) / down[t]
            split += (first + t) * small_up[cut] * up[t - cut] / down[t] / 2
        with rounding(DOWN):
            connected_down[t] = max(mpfr(0), 1 - split) * down[t]
            split = fold(small_down, connected_down, t, low=1, high=cut) / up[t]
        with rounding(UP):
            connected_up[t] = (1 - split) * up[t]
    for c, (others_down, others_up) in enumerate(_columns(cut - 1, graph, most - 1), 1):
        with rounding(DOWN):
            low = fold(others_down, connected_down, last, low=0, high=cut) / up[last]
        with rounding(UP):
            high = fold(others_up, connected_up, last, low=0, high=cut) / down[last]
            if c > 1:
                high += overlooked(n, c, small_up[cut - c + 2], up[last - cut] / down[last])
        yield Enclosure(low, min(mpfr(1), high))


def _of_cycles(n: int, graph: ShareGraph, most: int, progress: Progress | None) -> list[Enclosure]:
    """Return enclosures of P[C = c], c = 1..most, where fewer than two messages hide.

    E[q^C] is the product of (q + s j)/(1 + s j) over j < n, with s = 0 if no message hides, 2 for a
    single shuffler without a clear share, and else 1.
    """
    step = graph.hiding * (2 if graph.shuffler == "single" and not graph.clear_share else 1)
    ends: list[list[mpfr]] = []
    for way, other in ((DOWN, UP), (UP, DOWN)):
        with rounding(other):
            scale = mpfr(1)
            for j in range(1, n):
                scale *= 1 + step * j
        with rounding(way):
            product = [mpfr(1)] + [mpfr(0)] * (most - 1)  # coefficients of q, q^2, ...
            for j in range(1, n):
                product = list(map(gmpy2.fma, product, repeat(mpfr(step * j)), [0, *product[:-1]]))
                if progress is not None and j % 1024 == 0:
                    progress(j + n * len(ends), 2 * n)
            ends.append([min(mpfr(1), p / scale) for p in product])
    return list(map(Enclosure, *ends))


def enclosed_law(
    n: int,
    m: int,
    most: int,
    *,
    shuffler: str = "parallel",
    clear_share: bool = True,
    progress: Progress | None = None,
) -> tuple[Enclosure, ...]:
    """Return enclosures of P[C = c] for c = 1..most.

    Parameters
    ----------
    n : int
        Users: any number if two messages hide (m >= 2, or 3 without a clear share), else up to
        10^6, which takes about five seconds.
    m, shuffler, clear_share
        As for `component_pmf`.
    most : int
        The last c, up to n, and to 128 for more than 2048 users. Up to 12 take hundredths of a
        second for 1000 users or more; for few users, or many c, time is proportional to n^2 for
        each c.
    progress : callable, optional
        Called with the amounts done and in all.

    Examples
    --------
    >>> print(enclosed_law(100, 10, 100)[99])
    1.99509e-1580
    >>> print(enclosed_law(10**9, 4, 3)[2])
    5e-55
    """
    users = integer("n", n, low=1, high=MAX_COUNTED_USERS)
    graph = ShareGraph(integer("m", m, low=1, high=MAX_LAW_MESSAGES), shuffler, clear_share)
    high = users if users <= MAX_LAW_USERS else MAX_LAW_COMPONENTS
    most = integer("most", most, low=1, high=high)
    if graph.hiding < 2:
        if users > MAX_CYCLE_USERS:
            raise InvalidValue(
                "n",
                f"must be at most {MAX_CYCLE_USERS} for the exact distribution where fewer than "
                f"two messages hide, got {users}",
            )
        return tuple(_of_cycles(users, graph, most, progress))
    distribution: list[Enclosure] = []
    entries: Iterator[Enclosure | None]
    cut = cutoff(users, graph, max(2, most))
    if cut is None:
        entries = (column[users] for column in laws(users, graph, most))
    else:
        entries = _by_largest(users, graph, most, cut)
    for entry in entries:
        assert entry is not None  # c is at most n
        distribution.append(entry)
        if progress is not None:
            progress(len(distribution), most)
    return tuple(distribution)


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
        raise InvalidValue("n", f"must be at most {MAX_RATIONAL_USERS} for rationals, got {n}")
    moments = rational(n, _ANY_ORDER, Model.of(n, m, shuffler, clear_share).graph)
    distribution = [[mpq(1)]]
    for k in range(1, n + 1):
        chances = [moments.component(k, s) for s in range(1, k + 1)]
        row = [mpq(0)] * (k + 1)
        for s, chance in enumerate(chances, 1):
            for c, before in enumerate(distribution[k - s]):
                row[c + 1] += chance * before
        distribution.append(row)
    return tuple(Fraction(int(p.numerator), int(p.denominator)) for p in distribution[n][1:])


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
        raise InvalidValue("q", f"must be below 2^{(1 << 28) // n} for {n} users, got {quote(q)}")
    moments = enclosed(n, q, model.graph)
    return Moment(moments.excess[n], moments.divergence[n])
