"""Counts of components in sampled graphs, on one core or on any executor.

Trials are cut into batches whose size depends on the graph alone, and batch k draws from source k
of one family (`ikos.randomness.RandomSource.streams`). So the same seed gives the same graphs
whoever draws them, in whatever order, and what was done before an interruption is what fewer
trials would have given. Memory does not grow with the number of trials: batches return tallies,
and only so many are under way at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ikos._validation import choice, integer
from ikos.concurrency import Interrupted, Progress, spread
from ikos.confidence import clopper_pearson
from ikos.counts.share_graph import ShareGraph
from ikos.graphs.components import BACKENDS, counted
from ikos.graphs.models import sample_targets, share_graph
from ikos.randomness import RandomSource, secure
from ikos.results import Interval

MAX_TRIALS = 1 << 50
"""Most graphs in one call of `tally_components`."""

MAX_COUNTS = 1 << 30
"""Most graphs in one call of `component_counts`, which returns a number for each."""

_SLOTS_IN_BATCH = 1 << 20


@dataclass(frozen=True)
class Tally:
    """How many of the sampled graphs had how many components.

    Attributes
    ----------
    n : int
        Users.
    graph : ShareGraph
        The model.
    trials : int
        Independent graphs; 0 in what Ctrl-C left of a check, where every interval is [0, 1].
    counts : mapping of int to int
        Number of components to number of graphs; ascending, only what occurred.
    alone : int
        Graphs in which some user was a component of its own.
    """

    n: int
    graph: ShareGraph
    trials: int
    counts: dict[int, int] = field(hash=False)
    alone: int

    def __getitem__(self, c: int) -> int:
        """Return how many graphs had c components."""
        return self.counts.get(c, 0)

    def __add__(self, other: object) -> Tally:
        """Return the tally of both samples together; they must be independent, of one model."""
        if not isinstance(other, Tally):
            return NotImplemented
        if (self.n, self.graph) != (other.n, other.graph):
            raise ValueError(
                "other must be a tally of the same model, "
                f"got n = {other.n} and {other.graph} for n = {self.n} and {self.graph}"
            )
        return Tally(
            self.n,
            self.graph,
            self.trials + other.trials,
            dict(sorted((Counter(self.counts) + Counter(other.counts)).items())),
            self.alone + other.alone,
        )

    def at_least(self, c: int) -> int:
        """Return how many graphs had c components or more."""
        return sum(times for components, times in self.counts.items() if components >= c)

    def probability(self, c: int, confidence: float = 0.95) -> Interval:
        """Return an exact interval for P[C = c] (Clopper and Pearson)."""
        return self._interval(self[c], confidence)

    def tail(self, c: int, confidence: float = 0.95) -> Interval:
        """Return an exact interval for P[C >= c] (Clopper and Pearson)."""
        return self._interval(self.at_least(c), confidence)

    def _interval(self, seen: int, confidence: float) -> Interval:
        """Return what so many graphs of all say, and no graph says nothing."""
        return clopper_pearson(seen, self.trials, confidence) if self.trials else Interval(0.0, 1.0)


def batches(trials: int, n: int, m: int) -> Iterator[tuple[int, int]]:
    """Yield the number and the size of each batch."""
    size = max(1, _SLOTS_IN_BATCH // (n * m))
    for number in range(-(-trials // size)):
        yield number, min(size, trials - number * size)


def _drawn(
    streams: Callable[[int], RandomSource],
    n: int,
    graph: ShareGraph,
    backend: str,
    number: int,
    trials: int,
) -> tuple[NDArray[np.int64], int]:
    """Draw one batch; return the components of each graph, and in how many a user was alone."""
    targets = sample_targets(n, graph.m, trials, shuffler=graph.shuffler, rng=streams(number))
    found = counted(targets, graph.clear_share, backend)
    return found.counts, int(np.count_nonzero(found.alone))


def _tallied(
    streams: Callable[[int], RandomSource],
    n: int,
    graph: ShareGraph,
    backend: str,
    number: int,
    trials: int,
) -> Tally:
    """Draw one batch, and return its tally."""
    counts, alone = _drawn(streams, n, graph, backend, number, trials)
    values, times = np.unique(counts, return_counts=True)
    return Tally(n, graph, trials, dict(zip(values.tolist(), times.tolist(), strict=True)), alone)


def component_counts(
    n: int,
    m: int,
    trials: int,
    *,
    shuffler: str = "parallel",
    clear_share: bool = True,
    backend: str = "scipy",
    rng: RandomSource | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> NDArray[np.int64]:
    """Draw share graphs and return the number of components of each.

    Parameters
    ----------
    n : int
        Users, at least 1.
    m : int
        Shuffled messages of each, at least 1; n m below 2^30.
    trials : int
        Independent graphs, at least 1.
    shuffler : {"parallel", "single"}
        A permutation of the users for each message, or one of all slots.
    clear_share : bool
        Whether a further message bypasses the shufflers. Without one the graph is bipartite.
    backend : {"scipy", "networkx"}
        The fast one, or the reference. The same seed gives the same graphs to both.
    rng : RandomSource, optional
        Secure randomness by default.
    executor : concurrent.futures.Executor, optional
        Where to draw: a process pool, Dask's or MPI's. Results do not depend on it.
    progress : callable, optional
        Called with the number of graphs done and of all.

    Returns
    -------
    (trials,) ndarray of int64
        1 to n.

    Raises
    ------
    ValueError, TypeError
        For sizes that are no positive integers or too large, and for unknown names.
    Interrupted
        At Ctrl-C; ``partial`` holds the counts of the graphs that were done.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> component_counts(5, 2, 12, rng=DeterministicRandom(1))
    array([2, 1, 1, 1, 2, 1, 1, 1, 1, 2, 1, 1])
    """
    trials = integer("trials", trials, low=1, high=MAX_COUNTS)
    graph = share_graph(n, m, shuffler, clear_share)
    users = int(n)
    work = partial(_drawn, secure(rng).streams(), users, graph, _named(backend))
    parts: list[NDArray[np.int64]] = []

    def done() -> int:
        return sum(part.size for part in parts)

    try:
        with closing(spread(work, batches(trials, users, graph.m), executor)) as results:
            for counts, _ in results:
                parts.append(counts)
                if progress is not None:
                    progress(done(), trials)
    except KeyboardInterrupt:
        found = np.concatenate(parts) if parts else None
        raise Interrupted(found, done(), trials, "graphs") from None
    return np.concatenate(parts)


def tally_components(
    n: int,
    m: int,
    trials: int,
    *,
    shuffler: str = "parallel",
    clear_share: bool = True,
    backend: str = "scipy",
    rng: RandomSource | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Tally:
    """Draw share graphs and tally their components, in memory that does not grow with trials.

    Parameters
    ----------
    n, m, trials, shuffler, clear_share, backend, rng, executor, progress
        As for `component_counts`, which draws the same graphs from the same seed.

    Returns
    -------
    Tally

    Raises
    ------
    ValueError, TypeError
        For sizes that are no positive integers or too large, and for unknown names.
    Interrupted
        At Ctrl-C; ``partial`` is the tally of the graphs that were done.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> tally = tally_components(5, 2, 10_000, rng=DeterministicRandom(1))
    >>> tally.trials, sum(tally.counts.values()), tally[6]
    (10000, 10000, 0)
    """
    trials = integer("trials", trials, low=1, high=MAX_TRIALS)
    graph = share_graph(n, m, shuffler, clear_share)
    users = int(n)
    work = partial(_tallied, secure(rng).streams(), users, graph, _named(backend))
    tally = Tally(users, graph, 0, {}, 0)
    try:
        with closing(spread(work, batches(trials, users, graph.m), executor)) as results:
            for some in results:
                # one assignment for each batch, so that Ctrl-C finds a whole number of them
                tally = tally + some
                if progress is not None:
                    progress(tally.trials, trials)
    except KeyboardInterrupt:
        raise Interrupted(tally if tally.trials else None, tally.trials, trials, "graphs") from None
    return tally


def _named(backend: object) -> str:
    return choice("backend", backend, BACKENDS)
