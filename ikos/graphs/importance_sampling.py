"""Importance sampling for graphs that fall into c components or more, however rare these are.

Plant the event: draw sizes s_1 + ... + s_c = n with probability proportional to f_(s_1) ... f_(s_c)
(the weights of `ikos.counts.share_graph`), and a graph in which c parts of these sizes are unions
of components, uniformly among all such graphs: the shuffler then permutes the slots of each part
among themselves. For fixed parts the probability that all are unions of components is proportional
to the same product, so that a graph G is drawn

    (number of ordered partitions of G into c unions of components) / Q_c = c! S(C, c) / Q_c

times as often as by the shuffler, with S the Stirling numbers of the second kind and Q_c = sum of
f_(s_1) ... f_(s_c) / f_n over all compositions of n. Every graph with C >= c can be drawn. So

    P[C >= c] = (Q_c / c!) E[1 / S(C, c)],      P[C = k] = (Q_c / c!) P[C = k drawn] / S(k, c),

where the mean is over the drawn graphs. 1 / S(C, c) is 1 unless there are more than c components,
which is rare: a few thousand graphs estimate its mean well, however rare the event is. Both
estimates are unbiased, with intervals that hold for any number of trials.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate
from operator import mul, truediv
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpfr
from numpy.typing import NDArray

from ikos._validation import InvalidValue, integer
from ikos.counts.share_graph import ShareGraph
from ikos.graphs.component_distribution import (
    MAX_LAW_MESSAGES,
    Enclosure,
    cutoff,
    overlooked,
    weights,
)
from ikos.graphs.sampling import MAX_TRIALS, occurrences, run_batches
from ikos.graphs.share_graphs import Model, counted
from ikos.numeric.rounding import DOWN, UP, float_down, float_up, nearest, rational, rounding
from ikos.primitives.concurrency import Progress
from ikos.primitives.randomness import RandomSource
from ikos.results.confidence import clopper_pearson, mean_interval
from ikos.results.sums import Interval

MAX_PARTS = 64  # most parts planted


@dataclass(frozen=True)
class PlantedTally:
    """Graphs with c ``parts`` planted: the number of ``trials`` with each number of components.

    ``expected`` encloses Q_c / c!, the expected number of divisions of a graph's users into c
    unions of components: an upper bound on P[C >= c].
    """

    n: int
    graph: ShareGraph
    parts: int
    trials: int
    counts: dict[int, int] = field(hash=False)
    expected: Enclosure

    def _mean(self) -> Fraction:
        """Return the mean of 1 / S(C, c) over the drawn graphs."""
        shares = (Fraction(times, self.divisions(k)) for k, times in self.counts.items())
        return sum(shares, Fraction(0)) / self.trials

    def divisions(self, k: int) -> int:
        """Return S(k, c): the divisions of k components into c unions."""
        c = self.parts
        total = sum((-1) ** i * math.comb(c, i) * pow(c - i, k) for i in range(c))
        return int(total // math.factorial(c))

    @property
    def estimate(self) -> float:
        """Unbiased estimate of P[C >= c]; 0 below 5e-324."""
        return nearest(self.estimated)

    @property
    def estimated(self) -> mpfr:
        """The same, without underflow."""
        with rounding(UP):
            return self.expected.high * rational(self._mean())

    def interval(self, confidence: float = 0.95) -> Interval:
        """Return an interval that contains P[C >= c] with at least this probability."""
        interval = mean_interval(float(self._mean() * self.trials), self.trials, confidence)
        return _floats(self._scaled(interval, 1))

    def probability(self, k: int, confidence: float = 0.95) -> Interval:
        """Return an interval (Clopper and Pearson) for P[C = k], for a single k >= c."""
        return _floats(self.enclosure(k, confidence))

    def enclosure(self, k: int, confidence: float = 0.95) -> Enclosure:
        """Return the same without underflow."""
        k = integer("k", k, low=self.parts, high=self.n)
        interval = clopper_pearson(self.counts.get(k, 0), self.trials, confidence)
        return self._scaled(interval, self.divisions(k))

    def _scaled(self, interval: Interval, divisor: int) -> Enclosure:
        with rounding(DOWN):
            low = self.expected.low * mpfr(interval.low) / divisor
        with rounding(UP):
            high = self.expected.high * mpfr(interval.high) / divisor
            return Enclosure(low, min(mpfr(1), high))


def _floats(enclosure: Enclosure) -> Interval:
    return Interval(max(0.0, float_down(enclosure.low)), float_up(enclosure.high))


# The distribution of the sizes


def _distribution(terms: Sequence[mpfr]) -> NDArray[np.uint64]:
    """Return the distribution function of sizes 1, 2, ..., proportional to terms, times 2^64.

    Only values below 2^64.
    """
    steps, total = [], mpfr(0)
    with rounding(DOWN):
        for term in terms:
            total += term
            steps.append(total)
        scaled = [int(gmpy2.floor(step / total * (1 << 64))) for step in steps]
    return np.array([value for value in scaled if value < 1 << 64], dtype=np.uint64)


def _draw_sizes(distribution: NDArray[np.uint64], count: int, rng: RandomSource) -> Any:
    drawn = np.empty(count, dtype=np.uint64)
    rng.fill(drawn)
    return np.searchsorted(distribution, drawn, side="right") + 1


@lru_cache(maxsize=4 * MAX_PARTS)
def _sums(model: Model, parts: int, direction: int) -> list[mpfr]:
    """Return the sums of f_(s_1) ... f_(s_j) over compositions of k into j parts, for k = 0..n."""
    if parts == 1:
        return [mpfr(0), *weights(model.graph, 1, model.n, direction)]
    alone, others = _sums(model, 1, direction), _sums(model, parts - 1, direction)
    with rounding(direction):
        return [mpfr(0)] + [
            gmpy2.fsum(map(mul, alone[1:k], others[k - 1 : 0 : -1])) for k in range(1, model.n + 1)
        ]


class _SamplePlan:
    """The expected number of divisions, and the distribution of sizes of parts, from `_sums`.

    With many users (`cutoff`) the largest part is drawn first: tables of the users left for the
    others are enough. One of two parts is the largest in any case.
    """

    def __init__(self, model: Model, parts: int) -> None:
        self.n, self.parts, self._tables = model.n, parts, model
        self._distributions: dict[tuple[int, int], NDArray[np.uint64]] = {}
        self._smaller: NDArray[np.uint64] | None = None
        cut = cutoff(model.n, model.graph, parts)
        if cut is not None or parts == 2:
            self.expected = self._by_largest(cut)
            return
        ends = []
        for way, other in ((DOWN, UP), (UP, DOWN)):
            total, alone = _sums(model, parts, way), _sums(model, 1, other)
            with rounding(way):
                ends.append(total[self.n] / alone[self.n] / gmpy2.fac(parts))
        self.expected = Enclosure(*ends)

    def _by_largest(self, cut: int | None) -> Enclosure:
        """Return Q_c / c!, and keep the distribution of the total size r < J of the smaller parts.

        Without a cutoff J of two parts, all sizes r <= n/2 are in it.
        """
        n, c, graph = self.n, self.parts, self._tables.graph
        reach = cut or n // 2 + 1
        self._tables = Model(reach, graph)
        ends = []
        for way, other in ((UP, DOWN), (DOWN, UP)):
            others = _sums(self._tables, c - 1, way)
            with rounding(way):
                growth = (graph.growth(n - r, other) for r in range(reach))
                ratios = list(accumulate(growth, truediv, initial=mpfr(1)))  # f_(n-r) / f_n
                terms = list(map(mul, others[c - 1 : reach], ratios[c - 1 :]))
                if 2 * (reach - 1) == n:
                    terms[-1] /= 2  # neither part is the smaller one
                ends.append(gmpy2.fsum(terms) / gmpy2.fac(c - 1))
                if cut is not None and way == UP:
                    weight = _sums(self._tables, 1, UP)[cut - c + 2]
                    ends[0] += overlooked(n, c, weight, ratios[cut])
        self._smaller = _distribution(terms)
        return Enclosure(ends[1], ends[0])

    def sizes(self, trials: int, rng: RandomSource) -> NDArray[np.int64]:
        """Draw the sizes of the parts of each trial, (trials, parts)."""
        result = np.empty((trials, self.parts), dtype=np.int64)
        remaining, parts = np.full(trials, self.n), self.parts
        if self._smaller is not None:
            parts -= 1
            remaining = _draw_sizes(self._smaller, trials, rng) + parts - 1
            result[:, parts] = self.n - remaining
        for j in range(parts, 1, -1):
            for k in np.unique(remaining).tolist():
                here = np.flatnonzero(remaining == k)
                result[here, j - 1] = _draw_sizes(self._first_part(k, j), here.size, rng)
            remaining = remaining - result[:, j - 1]
        result[:, 0] = remaining
        return result

    def _first_part(self, k: int, j: int) -> NDArray[np.uint64]:
        """Return the distribution of the size of one of j parts of k users."""
        if (k, j) not in self._distributions:
            alone, others = (_sums(self._tables, i, DOWN) for i in (1, j - 1))
            with rounding(DOWN):
                terms = [alone[s] * others[k - s] for s in range(1, k - j + 2)]
            self._distributions[k, j] = _distribution(terms)
        return self._distributions[k, j]


_plan = lru_cache(maxsize=4)(_SamplePlan)


def _planted(plan: tuple[Model, int], rng: RandomSource, trials: int) -> Counter[int]:
    """Draw one batch of graphs with parts planted, and return the components' tally."""
    sizes = _plan(*plan).sizes(trials, rng)
    graph = plan[0].graph
    components = np.ones_like(sizes)
    for size in np.unique(sizes).tolist():
        if size > 1:
            here = sizes == size
            targets = Model(size, graph).sample(int(np.count_nonzero(here)), rng)
            components[here] = counted(targets, graph.clear_share, "scipy").counts
    return occurrences(components.sum(axis=1))


def rare_components(
    n: int,
    m: int,
    trials: int,
    *,
    at_least: int = 2,
    shuffler: str = "parallel",
    clear_share: bool = True,
    rng: RandomSource | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> PlantedTally:
    """Estimate P[C >= c] by importance sampling, even if it is far below 1/trials.

    Parameters
    ----------
    n, m : int
        At least 2 users. Shuffled messages per user, up to 10,000: at least 2 with a clear share, 3
        without. (With fewer, more than one component is not rare.)
    at_least : int
        c, from 2 to n and to 64.
    trials, shuffler, clear_share, rng, executor, progress
        As for `component_counts`.

    Returns
    -------
    PlantedTally
        ``.estimate`` and ``.interval()`` for P[C >= c]; ``.probability(k)`` for P[C = k]. Unbiased
        except for the rounding of the distribution of the sizes to 2^-64. Ctrl-C raises
        `Interrupted`, which holds the tally of the graphs drawn so far.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> tally = rare_components(10_000, 4, 100, rng=DeterministicRandom(1))
    >>> print(f"{tally.estimate:.3e}")
    1.000e-12
    """
    users = integer("n", n, low=2)
    model = Model.of(users, m, shuffler, clear_share)
    if model.graph.hiding < 2:
        raise InvalidValue(
            "m",
            f"must be at least {2 if clear_share else 3} for rare events, got {m}: "
            "with fewer, graphs of many components are common",
        )
    integer("m", m, high=MAX_LAW_MESSAGES)
    parts = integer("at_least", at_least, low=2, high=min(users, MAX_PARTS))
    trials = integer("trials", trials, low=1, high=MAX_TRIALS)
    expected = _plan(model, parts).expected

    def finish(counts: Counter[int], done: int) -> PlantedTally:
        return PlantedTally(users, model.graph, parts, done, dict(sorted(counts.items())), expected)

    draw = partial(_planted, (model, parts))
    return run_batches(draw, Counter[int](), finish, model, trials, rng, executor, progress)
