"""Bounds on P[C = c], and their comparison with the exact distribution over ranges.

*Lemma C.5 of BBGN20*, for parallel shufflers, a clear share, n >= 19 users and m >= 3 shuffled
messages per user: P[C = c] <= (1.5^(c-1) / c!) (e/n)^((m-1)(c-1)), and if also q <= (n/e)^(m-1) /
2, then E[q^C] <= q + q^2 (e/n)^(m-1). The printed proof has gaps; docs/message-counts.md, "Lemma
C.5 of BBGN20", has one that holds.

*By ordered partitions* into c unions of components, in all four models and for any n, if at least
two messages hide: P[C = c] <= kappa^(c-1) f_(n-c+1) / (f_n (c-1)!), with the weights f of
`ikos.counts.share_graph` and kappa of `ikos.counts.largest_component`; proved in
docs/message-counts.md, "Any number of users". It implies Lemma C.5, and is sharp to first order at
c = 2 if kappa is near 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import gmpy2
from gmpy2 import mpfr, mpq

from ikos._validation import MAX_COUNTED_USERS, InvalidValue, choice, integer, ordered, quote
from ikos.counts.largest_component import kappa
from ikos.counts.share_graph import ShareGraph
from ikos.counts.types import MAX_MESSAGES
from ikos.graphs.component_distribution import MAX_LAW_USERS, laws
from ikos.graphs.share_graphs import Model
from ikos.numeric.rounding import DOWN, UP, float_down, float_up, rounding


@dataclass(frozen=True)
class Bound:
    """A bound on P[C = c], without underflow.

    ``refusal`` returns None, or why the bound is not stated for n users and a graph. ``values``
    returns it for c = 1..most, rounded in a direction.
    """

    refusal: Callable[[int, ShareGraph], tuple[str, str] | None]
    values: Callable[[int, ShareGraph, int, int], list[mpfr]]

    def covers(self, n: int, graph: ShareGraph) -> bool:
        """Return whether the bound is stated for a setting."""
        return self.refusal(n, graph) is None


def _lemma_refusal(n: int, graph: ShareGraph) -> tuple[str, str] | None:
    if graph.shuffler != "parallel" or not graph.clear_share:
        return "bound", "must be 'parts' for a single shuffler or without a clear share"
    for name, value, least in (("n", n, 19), ("m", graph.m, 3)):
        if value < least:
            return (
                name,
                f"must be at least {least} for Lemma C.5 of BBGN20, got {value}; "
                "the bound by parts holds for any n",
            )
    return None


def _lemma(n: int, graph: ShareGraph, most: int, direction: int) -> list[mpfr]:
    bounds = [mpfr(1)]
    with rounding(direction):
        step = mpq(3, 2) * (gmpy2.exp(mpfr(1)) / n) ** (graph.m - 1)
        for c in range(2, most + 1):
            bounds.append(bounds[-1] * step / c)
    return bounds


def _parts_refusal(n: int, graph: ShareGraph) -> tuple[str, str] | None:
    del n
    if graph.hiding >= 2:
        return None
    return "m", f"must be at least {2 if graph.clear_share else 3} for this bound, got {graph.m}"


def _parts(n: int, graph: ShareGraph, most: int, direction: int) -> list[mpfr]:
    other = DOWN if direction == UP else UP
    factor = kappa(graph, direction)
    bounds = [mpfr(1)]
    for c in range(2, most + 1):
        with rounding(other):
            divisor = (c - 1) * graph.growth(n - c + 2, other)
        with rounding(direction):
            bounds.append(bounds[-1] * factor / divisor)
    return [min(mpfr(1), bound) for bound in bounds] if direction == UP else bounds


BOUNDS = {"lemma_c5": Bound(_lemma_refusal, _lemma), "parts": Bound(_parts_refusal, _parts)}
"""Bounds by name."""


def _setting(
    name: str, n: object, m: object, shuffler: str = "parallel", clear_share: bool = True
) -> tuple[int, ShareGraph]:
    """Check and return a setting for which a bound is stated."""
    users = integer("n", n, low=1, high=MAX_COUNTED_USERS)
    graph = ShareGraph(integer("m", m, low=1, high=MAX_MESSAGES), shuffler, clear_share)
    if (reason := BOUNDS[name].refusal(users, graph)) is not None:
        raise InvalidValue(*reason)
    return users, graph


def component_bound(n: int, m: int, c: int) -> float:
    """Return Lemma C.5's upper bound on P[C = c], rounded up.

    Parameters
    ----------
    n, m : int
        At least 19 users and 3 shuffled messages each; with parallel shufflers and a clear share.
    c : int
        Number of components, from 1 to n. Time is proportional to it.

    Examples
    --------
    >>> print(f"{component_bound(100, 4, 2):.3e}")
    1.506e-05
    """
    users, graph = _setting("lemma_c5", n, m)
    return float_up(_lemma(users, graph, integer("c", c, low=1, high=users), UP)[-1])


def excess_bound(n: int, m: int, q: int) -> float:
    """Return Lemma C.5's upper bound on E[q^C]/q - 1: q (e/n)^(m-1), rounded up.

    n and m are as for `component_bound`; the order q of the group is from 2 to (n/e)^(m-1) / 2.

    Examples
    --------
    >>> print(f"{excess_bound(100, 4, 2**8):.3e}")
    5.142e-03
    """
    return float_up(lemma_excess(n, m, q, UP))


def lemma_excess(n: int, m: int, q: int, direction: int) -> mpfr:
    """Return `excess_bound` without underflow, rounded in a direction."""
    users, graph = _setting("lemma_c5", n, m)
    order = integer("q", q, low=2)
    with rounding(direction):
        excess = order * (gmpy2.exp(mpfr(1)) / users) ** (graph.m - 1)
    if not excess <= mpq(1, 2):
        raise InvalidValue(
            "q", f"must be at most (n/e)^(m-1) / 2 for Lemma C.5 of BBGN20, got {quote(order)}"
        )
    return excess


def parts_bound(
    n: int, m: int, c: int, *, shuffler: str = "parallel", clear_share: bool = True
) -> float:
    """Return the upper bound on P[C = c] by ordered partitions, rounded up and at most 1.

    Parameters
    ----------
    n, c, shuffler, clear_share
        As for `component_pmf`, for any number of users, and 1 <= c <= n.
    m : int
        Shuffled messages per user: at least 2 with a clear share, 3 without.

    Examples
    --------
    >>> print(f"{parts_bound(1000, 3, 2):.3e}, {parts_bound(10**9, 4, 2, shuffler='single'):.3e}")
    1.500e-06, 1.250e-28
    """
    users, graph = _setting("parts", n, m, shuffler, clear_share)
    return float_up(_parts(users, graph, integer("c", c, low=1, high=users), UP)[-1])


# The sweep


@dataclass(frozen=True)
class Slack:
    """The ``factor`` of a bound over P[C = c], rounded down, for n users and m shuffled messages.

    The bound holds if the factor is at least 1, and may hold if it is below by rounding only.
    """

    n: int
    m: int
    c: int
    factor: float


@dataclass(frozen=True)
class Sweep:
    """The results of a sweep.

    ``compared`` is the number of triples (n, m, c) compared: all n and m in the ranges, and c from
    1 to n. ``unproved`` lists at most a hundred triples for which the bound is not proved: it is
    violated, or agrees with P[C = c] to 256 binary digits. ``smallest`` has the smallest factor
    over n and c >= 2, for each m. (At c = 1 both sides are nearly 1.)
    """

    bound: str
    shuffler: str
    clear_share: bool
    users: tuple[int, int]
    messages: tuple[int, int]
    compared: int
    unproved: tuple[Slack, ...]
    smallest: tuple[Slack, ...]

    @property
    def holds(self) -> bool:
        """Whether the bound is proved to hold wherever it was compared, by directed rounding."""
        return not self.unproved

    @property
    def tightest(self) -> Slack:
        """The smallest factor of all."""
        return min(self.smallest, key=lambda slack: slack.factor)


def sweep(
    users: tuple[int, int] = (19, 300),
    messages: tuple[int, int] = (3, 10),
    *,
    bound: str = "lemma_c5",
    shuffler: str = "parallel",
    clear_share: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Compare a bound with the exact distribution for every n, m and c in ranges.

    Parameters
    ----------
    users, messages : (int, int)
        The smallest and the largest n and m; n from 2 to 2048. Time is proportional to n^3 of the
        largest: one or two seconds for each m at n = 300.
    bound : {"lemma_c5", "parts"}
        `component_bound` or `parts_bound`.
    shuffler, clear_share
        As for `component_pmf`.
    progress : callable, optional
        Called with the amounts done and in all.

    Examples
    --------
    >>> found = sweep((19, 40), (3, 4))
    >>> found.holds, found.compared
    (True, 1298)
    >>> found.tightest
    Slack(n=19, m=3, c=2, factor=5.497731665819104)
    """
    low, high = _range("users", users, least=2, most=MAX_LAW_USERS)
    first, last = _range("messages", messages, least=1, most=1000)
    values = BOUNDS[choice("bound", bound, tuple(BOUNDS))].values
    graph = Model.of(high, last, shuffler, clear_share).graph
    _setting(bound, low, first, shuffler, clear_share)
    compared, whole = 0, high * (last - first + 1)
    unproved: list[Slack] = []
    smallest = []
    for m in range(first, last + 1):
        graph = ShareGraph(m, shuffler, clear_share)
        bounds = {n: values(n, graph, n, DOWN) for n in range(low, high + 1)}
        least: Slack | None = None
        for c, column in enumerate(laws(high, graph, high), 1):
            for n in range(max(low, c), high + 1):
                entry = column[n]
                assert entry is not None
                compared += 1
                with rounding(DOWN):
                    factor = bounds[n][c - 1] / entry.high
                slack = Slack(n, m, c, float_down(factor))
                if factor < 1 and len(unproved) < 100:
                    unproved.append(slack)
                if c > 1 and (least is None or slack.factor < least.factor):
                    least = slack
            if progress is not None:
                progress(high * (m - first) + c, whole)
        assert least is not None
        smallest.append(least)
    return Sweep(
        bound, shuffler, clear_share, (low, high), (first, last), compared,
        tuple(unproved), tuple(smallest),
    )  # fmt: skip


def _range(name: str, ends: tuple[int, int], *, least: int, most: int) -> tuple[int, int]:
    both = [integer(name, end, low=least, high=most) for end in ordered(name, ends)]
    if len(both) != 2 or both[1] < both[0]:
        raise InvalidValue(name, f"must be (least, greatest), got {quote(tuple(both))}")
    return both[0], both[1]
