"""A bound of P[C = c] compared with the exact distribution, over ranges and for every c."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gmpy2 import mpfr

from ikos._validation import choice, integer, quote
from ikos.counts.rounding import DOWN, float_down, rounding
from ikos.counts.share_graph import ShareGraph
from ikos.graphs import lemma_c5, partition_bound
from ikos.graphs.component_distribution import MAX_LAW_USERS, laws
from ikos.graphs.models import Model

BOUNDS = ("lemma_c5", "parts")


@dataclass(frozen=True)
class Slack:
    """Where a bound is compared with the truth, and by what factor it is above.

    Attributes
    ----------
    n, m, c : int
        Users, shuffled messages, components.
    factor : float
        The bound over P[C = c], rounded down. The bound holds if it is at least 1.
    """

    n: int
    m: int
    c: int
    factor: float


@dataclass(frozen=True)
class Sweep:
    """What a sweep found.

    Attributes
    ----------
    bound : {"lemma_c5", "parts"}
        Which bound.
    shuffler : str
        "parallel" or "single".
    clear_share : bool
        Whether there is one.
    users, messages : tuple of int
        The smallest and the largest n and m.
    compared : int
        How many triples (n, m, c): every n and m in the ranges, and every c from 1 to n.
    violations : tuple of Slack
        Where the bound is not proved to hold, at most a hundred of them.
    smallest : tuple of Slack
        The smallest factor over n and c >= 2, for each m. At c = 1 both sides are nearly 1.
    """

    bound: str
    shuffler: str
    clear_share: bool
    users: tuple[int, int]
    messages: tuple[int, int]
    compared: int
    violations: tuple[Slack, ...]
    smallest: tuple[Slack, ...]

    @property
    def holds(self) -> bool:
        """Whether the bound holds wherever it was compared: by directed rounding, a proof."""
        return not self.violations

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
        The smallest and the largest n and m; n from 2 to 2048. Time is in proportion to n^3 of the
        largest: one or two seconds for each m at n = 300.
    bound : {"lemma_c5", "parts"}
        `component_bound` or `parts_bound`.
    shuffler : {"parallel", "single"}
        A permutation of the users for each message, or one of all slots.
    clear_share : bool
        Whether a further message bypasses the shufflers.
    progress : callable, optional
        Called with what is done and the whole.

    Returns
    -------
    Sweep
        Enclosures in directed rounding make it a proof, up to bugs, for the ranges.

    Raises
    ------
    ValueError
        Where the bound is not stated for the ranges.

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
    choice("bound", bound, BOUNDS)
    graph = Model.of(high, last, shuffler, clear_share).graph
    _stated(bound, low, first, graph)
    whole = sum(_products(high, c) for c in range(1, high + 1)) * (last - first + 1)
    compared = done = 0
    violations: list[Slack] = []
    smallest = []
    for m in range(first, last + 1):
        graph = ShareGraph(m, shuffler, clear_share)
        bounds = {n: _bounds(bound, n, graph) for n in range(low, high + 1)}
        least: Slack | None = None
        for c, column in enumerate(laws(high, graph, high), 1):
            for n in range(max(low, c), high + 1):
                entry = column[n]
                assert entry is not None
                compared += 1
                with rounding(DOWN):
                    factor = bounds[n][c - 1] / entry.high
                slack = Slack(n, m, c, float_down(factor))
                if factor < 1 and len(violations) < 100:
                    violations.append(slack)
                if c > 1 and (least is None or slack.factor < least.factor):
                    least = slack
            done += _products(high, c)
            if progress is not None:
                progress(done, whole)
        assert least is not None
        smallest.append(least)
    ends, found = ((low, high), (first, last)), (tuple(violations), tuple(smallest))
    return Sweep(bound, shuffler, clear_share, *ends, compared, *found)


def _products(n: int, c: int) -> int:
    """Return how many products there are in column c of the distribution."""
    return (n - c + 1) * (n - c + 2) // 2


def _range(name: str, ends: Iterable[object], *, least: int, most: int) -> tuple[int, int]:
    try:
        low, high = ends
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be two integers, got {quote(ends)}") from None
    first, last = integer(name, low, low=least, high=most), integer(name, high, high=most)
    if last < first:
        raise ValueError(f"{name} must be (least, greatest), got {quote((first, last))}")
    return first, last


def _stated(bound: str, n: int, m: int, graph: ShareGraph) -> None:
    """Refuse ranges for which the bound is not stated."""
    shuffler, clear_share = graph.shuffler, graph.clear_share
    if bound == "parts":
        partition_bound.parts_bound(n, m, 1, shuffler=shuffler, clear_share=clear_share)
        return
    if not (shuffler == "parallel" and clear_share):
        raise ValueError(
            "bound must be 'parts' for a single shuffler or without a clear share, got 'lemma_c5'"
        )
    lemma_c5.component_bound(n, m, 1)


def _bounds(bound: str, n: int, graph: ShareGraph) -> list[mpfr]:
    if bound == "parts":
        return partition_bound.falling_bounds(n, graph, n)
    return lemma_c5.falling_bounds(n, graph.m, n)
