"""Counts of components in sampled graphs, on one core or on any executor.

Trials are cut into batches whose size depends on the graph alone, and batch k draws from source k
of one family (`ikos.randomness.RandomSource.streams`). So the same seed gives the same graphs
on any executor, and what was done before an interruption is what fewer trials would have given.
Memory does not grow with the number of trials: batches return tallies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ikos._validation import choice, integer
from ikos.concurrency import Interrupted, Progress, spread
from ikos.confidence import clopper_pearson
from ikos.counts.share_graph import ShareGraph
from ikos.graphs.components import BACKENDS, counted
from ikos.graphs.models import Model
from ikos.randomness import RandomSource, secure
from ikos.results import Interval

MAX_TRIALS = 1 << 50
"""Most graphs in one call of `tally_components`."""

MAX_COUNTS = 1 << 30
"""Most graphs in one call of `component_counts`, which returns a number for each."""

_SLOTS_IN_BATCH = 1 << 20

_T = TypeVar("_T")


@dataclass(frozen=True)
class Tally:
    """How many of ``trials`` graphs had how many components: ``counts``, ascending.

    ``alone`` is in how many some user was a component of its own. Without trials, as Ctrl-C may
    leave a check, every interval is [0, 1].
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
        """Return what this many graphs of all say, and no graph says nothing."""
        return clopper_pearson(seen, self.trials, confidence) if self.trials else Interval(0.0, 1.0)


Streams = Callable[[int], RandomSource]


def run_batches(
    draw: Callable[[int, int], _T],
    keep: Callable[[_T], int],
    model: Model,
    trials: int,
    executor: Executor | None,
    progress: Progress | None,
) -> bool:
    """Draw all batches and keep each; ``keep`` returns how many graphs are done.

    Return whether that ended early, by Ctrl-C: what was kept is whole batches.
    """
    size = max(1, _SLOTS_IN_BATCH // model.slots)
    batches = ((k, min(size, trials - k * size)) for k in range(-(-trials // size)))
    try:
        with closing(spread(draw, batches, executor)) as results:
            for batch in results:
                done = keep(batch)
                if progress is not None:
                    progress(done, trials)
    except KeyboardInterrupt:
        return True
    return False


def _drawn(
    streams: Streams, model: Model, backend: str, number: int, trials: int
) -> tuple[NDArray[np.int64], int]:
    """Draw one batch; return the components of each graph, and in how many a user was alone."""
    found = counted(model.sample(trials, streams(number)), model.graph.clear_share, backend)
    return found.counts, int(np.count_nonzero(found.alone))


def _tallied(streams: Streams, model: Model, backend: str, number: int, trials: int) -> Tally:
    """Draw one batch, and return its tally."""
    counts, alone = _drawn(streams, model, backend, number, trials)
    values, times = np.unique(counts, return_counts=True)
    seen = dict(zip(values.tolist(), times.tolist(), strict=True))
    return Tally(model.n, model.graph, trials, seen, alone)


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
    Interrupted
        At Ctrl-C; ``partial`` holds the counts of the graphs that were done.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> component_counts(5, 2, 12, rng=DeterministicRandom(1))
    array([2, 1, 1, 1, 2, 1, 1, 1, 1, 2, 1, 1])
    """
    trials = integer("trials", trials, low=1, high=MAX_COUNTS)
    model = Model.of(n, m, shuffler, clear_share)
    draw = partial(_drawn, secure(rng).streams(), model, choice("backend", backend, BACKENDS))
    parts: list[NDArray[np.int64]] = []

    def keep(batch: tuple[NDArray[np.int64], int]) -> int:
        parts.append(batch[0])
        return sum(part.size for part in parts)

    stopped = run_batches(draw, keep, model, trials, executor, progress)
    found = np.concatenate(parts) if parts else None
    if stopped or found is None:
        raise Interrupted(found, 0 if found is None else found.size, trials, "graphs")
    return found


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

    Raises
    ------
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
    model = Model.of(n, m, shuffler, clear_share)
    draw = partial(_tallied, secure(rng).streams(), model, choice("backend", backend, BACKENDS))
    tally = Tally(model.n, model.graph, 0, {}, 0)

    def keep(batch: Tally) -> int:
        nonlocal tally
        tally = tally + batch  # one assignment: Ctrl-C finds whole batches
        return tally.trials

    if run_batches(draw, keep, model, trials, executor, progress):
        raise Interrupted(tally if tally.trials else None, tally.trials, trials, "graphs")
    return tally
