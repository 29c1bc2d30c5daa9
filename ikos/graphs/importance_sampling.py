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
from operator import mul
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpfr
from numpy.typing import NDArray

from ikos._validation import integer
from ikos.concurrency import Progress
from ikos.confidence import clopper_pearson, mean_interval
from ikos.counts.rounding import DOWN, UP, float_down, float_up, rational, rounding
from ikos.counts.share_graph import ShareGraph
from ikos.graphs.component_distribution import MAX_LAW_MESSAGES, MAX_LAW_USERS, Enclosure
from ikos.graphs.sampling import MAX_TRIALS, occurrences, run_batches
from ikos.graphs.share_graphs import Model, counted
from ikos.randomness import RandomSource
from ikos.results import Interval

MAX_PARTS = 64  # most parts planted
_PRECISION = 200  # binary digits of the expected number of divisions


@dataclass(frozen=True)
class PlantedTally:
    """Graphs drawn with c ``parts`` planted: of ``trials``, how many had each number of components.

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
        found = (Fraction(times, self.divisions(k)) for k, times in self.counts.items())
        return sum(found, Fraction(0)) / self.trials

    def divisions(self, k: int) -> int:
        """Return S(k, c): the divisions of k components into c unions."""
        c = self.parts
        total = sum((-1) ** i * math.comb(c, i) * pow(c - i, k) for i in range(c))
        return int(total // math.factorial(c))

    @property
    def estimate(self) -> float:
        """Unbiased estimate of P[C >= c]; 0 below 5e-324."""
        return float(self.estimated)

    @property
    def estimated(self) -> mpfr:
        """The same, without underflow."""
        with rounding(UP):
            return self.expected.high * rational(self._mean())

    def interval(self, confidence: float = 0.95) -> Interval:
        """Return an interval that contains P[C >= c] with at least this probability."""
        found = mean_interval(float(self._mean() * self.trials), self.trials, confidence)
        return _floats(self._scaled(found, 1))

    def probability(self, k: int, confidence: float = 0.95) -> Interval:
        """Return an interval (Clopper and Pearson) for P[C = k], for a single k >= c."""
        return _floats(self.enclosure(k, confidence))

    def enclosure(self, k: int, confidence: float = 0.95) -> Enclosure:
        """Return the same without underflow."""
        k = integer("k", k, low=self.parts, high=self.n)
        found = clopper_pearson(self.counts.get(k, 0), self.trials, confidence)
        return self._scaled(found, self.divisions(k))

    def _scaled(self, interval: Interval, divisor: int) -> Enclosure:
        with rounding(DOWN):
            low = self.expected.low * mpfr(interval.low) / divisor
        with rounding(UP):
            high = self.expected.high * mpfr(interval.high) / divisor
            return Enclosure(low, min(mpfr(1), high))


def _floats(enclosure: Enclosure) -> Interval:
    return Interval(max(0.0, float_down(enclosure.low)), float_up(enclosure.high))


# The distribution of the sizes


def _distribution(weights: Sequence[mpfr]) -> NDArray[np.uint64]:
    """Return the distribution function of sizes 1, 2, ..., proportional to weights, times 2^64.

    Only values below 2^64.
    """
    steps, total = [], mpfr(0)
    with rounding(DOWN):
        for weight in weights:
            total += weight
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
        weights = [mpfr(0), mpfr(1)]
        for k in range(2, model.n + 1):
            growth = model.graph.growth(k, direction)
            with rounding(direction):
                weights.append(weights[-1] * growth)
        return weights
    alone, others = _sums(model, 1, direction), _sums(model, parts - 1, direction)
    with rounding(direction):
        return [mpfr(0)] + [
            gmpy2.fsum(map(mul, alone[1:k], others[k - 1 : 0 : -1])) for k in range(1, model.n + 1)
        ]


class _SamplePlan:
    """The expected number of divisions, and how sizes of parts are drawn.

    From tables (`_sums`) up to `MAX_LAW_USERS` users. Two parts need none: the smaller one, of s
    users, has weight B(n, s), which falls quickly.
    """

    def __init__(self, model: Model, parts: int) -> None:
        self.model, self.n, self.graph, self.parts = model, model.n, model.graph, parts
        self._distributions: dict[tuple[int, int], NDArray[np.uint64]] = {}
        if parts == 2:
            weights, self.expected = self._smaller_parts()
            self._distributions[self.n, 2] = _distribution(weights)
            return
        ends = []
        for way, other in ((DOWN, UP), (UP, DOWN)):
            total, alone = _sums(model, parts, way), _sums(model, 1, other)
            with rounding(way):
                ends.append(total[self.n] / alone[self.n] / gmpy2.fac(parts))
        self.expected = Enclosure(*ends)

    def _smaller_parts(self) -> tuple[list[mpfr], Enclosure]:
        """Return the weights of the smaller part's sizes 1, 2, ..., and Q_2 / 2.

        B(n, s) falls up to n/2 if two messages hide: once a term times the number of remaining
        terms is negligible, so are these, and they are left out of the distribution of the sizes.
        """
        n, graph = self.n, self.graph
        terms, total = [], mpfr(0)
        below = above = mpfr(1)
        for s in range(1, n // 2 + 1):
            # B(n, s) = B(n, s - 1) g(s) / g(n - s + 1), from B(n, 0) = 1
            share = 2 if 2 * s == n else 1
            with rounding(DOWN):
                below = below * graph.growth(s, DOWN) / graph.growth(n - s + 1, UP)
                terms.append(below / share)
            with rounding(UP):
                above = above * graph.growth(s, UP) / graph.growth(n - s + 1, DOWN)
                total += above / share
                rest = (n // 2 - s) * above
                if rest <= terms[0] * mpfr(2) ** -_PRECISION:
                    break
        with rounding(DOWN):
            lower = gmpy2.fsum(terms)
        with rounding(UP):
            return terms, Enclosure(lower, total + rest)

    def sizes(self, trials: int, rng: RandomSource) -> NDArray[np.int64]:
        """Draw the sizes of the parts of each trial, (trials, parts)."""
        result = np.empty((trials, self.parts), dtype=np.int64)
        left = np.full(trials, self.n)
        for j in range(self.parts, 1, -1):
            for k in np.unique(left).tolist():
                here = np.flatnonzero(left == k)
                result[here, j - 1] = _draw_sizes(self._first_part(k, j), here.size, rng)
            left = left - result[:, j - 1]
        result[:, 0] = left
        return result

    def _first_part(self, k: int, j: int) -> NDArray[np.uint64]:
        """Return the distribution of the size of one of j parts of k users."""
        if (k, j) not in self._distributions:
            alone, others = (_sums(self.model, i, DOWN) for i in (1, j - 1))
            with rounding(DOWN):
                weights = [alone[s] * others[k - s] for s in range(1, k - j + 2)]
            self._distributions[k, j] = _distribution(weights)
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
        At least 2 users, at most 2048 for ``at_least`` above 2. Shuffled messages per user: at
        least 2 with a clear share, 3 without. (With fewer, more than one component is not rare.)
    at_least : int
        c, from 2 to n and to 64.
    trials, shuffler, clear_share, rng, executor, progress
        As for `component_counts`.

    Returns
    -------
    PlantedTally
        ``.estimate`` and ``.interval()`` for P[C >= c]; ``.probability(k)`` for P[C = k]. Unbiased
        except for the rounding of the distribution of the sizes to 2^-64. On Ctrl-C an
        `Interrupted` is raised that holds the tally of the graphs drawn so far.

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
        raise ValueError(
            f"m must be at least {2 if clear_share else 3} for rare events, got {m}: "
            "with fewer, graphs of many components are common"
        )
    parts = integer("at_least", at_least, low=2, high=min(users, MAX_PARTS))
    if parts > 2:
        integer("n", users, high=MAX_LAW_USERS)
        integer("m", m, high=MAX_LAW_MESSAGES)
    trials = integer("trials", trials, low=1, high=MAX_TRIALS)
    expected = _plan(model, parts).expected

    def finish(counts: Counter[int], done: int) -> PlantedTally:
        return PlantedTally(users, model.graph, parts, done, dict(sorted(counts.items())), expected)

    draw = partial(_planted, (model, parts))
    return run_batches(draw, Counter[int](), finish, model, trials, rng, executor, progress)
