"""Counts of components in sampled graphs, on one core or on any executor.

Trials are cut into batches whose size depends only on the graph, and batch k draws from source k of
one family (`ikos.primitives.randomness.RandomSource.streams`). So the same seed gives the same
graphs on any executor, and an interrupted run has the graphs of a shorter one. Batches return
tallies, so memory does not grow with the number of trials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidValue, choice, integer
from ikos.counts.share_graph import ShareGraph
from ikos.graphs.share_graphs import BACKENDS, Model, counted
from ikos.primitives.concurrency import Interrupted, Progress, spread
from ikos.primitives.randomness import RandomSource, secure
from ikos.results.confidence import clopper_pearson
from ikos.results.sums import Interval

MAX_TRIALS = 1 << 50  # most graphs in one call of `tally_components`
MAX_COUNTS = 1 << 30  # most graphs of `component_counts`, which returns a number for each

_SLOTS_IN_BATCH = 1 << 20

_T = TypeVar("_T")


@dataclass(frozen=True)
class Tally:
    """The number of ``trials`` graphs with each number of components: ``counts``, ascending.

    ``alone`` counts the graphs in which some user was a separate component. Without trials, as
    after an early Ctrl-C, every interval is [0, 1].
    """

    n: int
    graph: ShareGraph
    trials: int
    counts: dict[int, int] = field(hash=False)
    alone: int

    def __getitem__(self, c: int) -> int:
        """Return the number of graphs with c components."""
        return self.counts.get(c, 0)

    def __add__(self, other: object) -> Tally:
        """Return the combined tally of two samples, which must be independent and of one model."""
        if not isinstance(other, Tally):
            return NotImplemented
        if (self.n, self.graph) != (other.n, other.graph):
            raise InvalidValue("other", f"must be of n = {self.n} and {self.graph}, got {other}")
        counts = dict(sorted((Counter(self.counts) + Counter(other.counts)).items()))
        return Tally(
            self.n, self.graph, self.trials + other.trials, counts, self.alone + other.alone
        )

    def at_least(self, c: int) -> int:
        """Return the number of graphs with at least c components."""
        return sum(times for components, times in self.counts.items() if components >= c)

    def probability(self, c: int, confidence: float = 0.95) -> Interval:
        """Return an exact interval for P[C = c] (Clopper and Pearson)."""
        return self._interval(self[c], confidence)

    def tail(self, c: int, confidence: float = 0.95) -> Interval:
        """Return an exact interval for P[C >= c] (Clopper and Pearson)."""
        return self._interval(self.at_least(c), confidence)

    def _interval(self, seen: int, confidence: float) -> Interval:
        """Return an interval for the probability of a property that this many graphs had."""
        return clopper_pearson(seen, self.trials, confidence) if self.trials else Interval(0.0, 1.0)


def run_batches(
    draw: Callable[[RandomSource, int], Any],
    start: Any,
    finish: Callable[[Any, int], _T],
    model: Model,
    trials: int,
    rng: RandomSource | None,
    executor: Executor | None,
    progress: Progress | None,
) -> _T:
    """Draw batches, add them to ``start``, and return ``finish`` of the sum and of its trials.

    Ctrl-C raises `Interrupted`, which holds the same for the batches done.
    """
    size = max(1, _SLOTS_IN_BATCH // model.slots)
    batches = ((k, min(size, trials - k * size)) for k in range(-(-trials // size)))
    work = partial(_batch, draw, secure(rng).streams())
    state = start, 0
    try:
        with closing(spread(work, batches, executor)) as results:
            for batch in results:
                # one assignment, so that Ctrl-C finds whole batches
                state = state[0] + batch, min(trials, state[1] + size)
                if progress is not None:
                    progress(state[1], trials)
    except KeyboardInterrupt:
        done = state[1]
        raise Interrupted(finish(*state) if done else None, done, trials, "graphs") from None
    return finish(*state)


def _batch(
    draw: Callable[[RandomSource, int], Any],
    streams: Callable[[int], RandomSource],
    number: int,
    trials: int,
) -> Any:
    return draw(streams(number), trials)


def occurrences(values: NDArray[np.int64]) -> Counter[int]:
    """Return how often each number occurs, in ascending order."""
    values_seen, times = np.unique(values, return_counts=True)
    return Counter(dict(zip(values_seen.tolist(), times.tolist(), strict=True)))


def _counts(model: Model, backend: str, rng: RandomSource, trials: int) -> list[NDArray[np.int64]]:
    return [counted(model.sample(trials, rng), model.graph.clear_share, backend).counts]


def _tallied(model: Model, backend: str, rng: RandomSource, trials: int) -> Tally:
    components = counted(model.sample(trials, rng), model.graph.clear_share, backend)
    alone = int(np.count_nonzero(components.alone))
    return Tally(model.n, model.graph, trials, dict(occurrences(components.counts)), alone)


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
        Number of users, at least 1.
    m : int
        Shuffled messages per user, at least 1; n m below 2^30.
    trials : int
        Independent graphs, at least 1.
    shuffler : {"parallel", "single"}
        A permutation of the users for each message, or one of all slots.
    clear_share : bool
        Whether a further message bypasses the shufflers. Without one the graph is bipartite.
    backend : {"scipy", "networkx"}
        Default and reference implementation. The same seed gives the same graphs to both.
    rng : RandomSource, optional
        Secure randomness by default.
    executor : concurrent.futures.Executor, optional
        Executor of the draws: a process pool, Dask's or MPI's. Results do not depend on it.
    progress : callable, optional
        Called with the numbers of graphs done and in all. Ctrl-C raises `Interrupted`, which holds
        the result for the graphs done.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> component_counts(5, 2, 12, rng=DeterministicRandom(1))
    array([2, 1, 1, 1, 2, 1, 1, 1, 1, 2, 1, 1])
    """
    trials = integer("trials", trials, low=1, high=MAX_COUNTS)
    model = Model.of(n, m, shuffler, clear_share)
    draw = partial(_counts, model, choice("backend", backend, BACKENDS))
    return run_batches(
        draw, [], lambda parts, _: np.concatenate(parts), model, trials, rng, executor, progress
    )


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
    """Draw share graphs and tally their components, in memory independent of trials.

    The arguments are those of `component_counts`, which draws the same graphs from the same seed.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> tally = tally_components(5, 2, 10_000, rng=DeterministicRandom(1))
    >>> tally.trials, sum(tally.counts.values()), tally[6]
    (10000, 10000, 0)
    """
    trials = integer("trials", trials, low=1, high=MAX_TRIALS)
    model = Model.of(n, m, shuffler, clear_share)
    draw = partial(_tallied, model, choice("backend", backend, BACKENDS))
    start = Tally(model.n, model.graph, 0, {}, 0)
    drawn: Tally = run_batches(
        draw, start, lambda tally, _: tally, model, trials, rng, executor, progress
    )
    return drawn
