"""The bounds on P[C = c] compared with the exact distribution and samples, with a verdict."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

import gmpy2
from gmpy2 import mpfr

from ikos._validation import choice, integer, number
from ikos.counts.largest_component import applies, largest_component
from ikos.counts.share_graph import ShareGraph
from ikos.graphs.component_bounds import BOUNDS, lemma_excess
from ikos.graphs.component_distribution import (
    MAX_LAW_USERS,
    Enclosure,
    component_moment,
    enclosed_law,
)
from ikos.graphs.importance_sampling import PlantedTally, rare_components
from ikos.graphs.sampling import MAX_TRIALS, Tally, tally_components
from ikos.graphs.share_graphs import BACKENDS, Model
from ikos.numeric.rounding import DOWN, UP, float_down, nearest, rounding
from ikos.primitives.concurrency import Interrupted, Progress
from ikos.primitives.randomness import RandomSource, secure
from ikos.results.confidence import clopper_pearson, p_value_bound
from ikos.results.sums import Interval, at_least, at_most
from ikos.results.text import percent

FALSE_ALARM = 1e-9
"""A deviation contradicts the exact distribution if its p-value is at most this."""

_ROWS, MAX_ROWS = 6, 64
_PLANTED, _SLOTS_PLANTED = 2000, 20_000_000  # of each number of components, and of all
_RARE = 1e-3  # expected graphs below which a number of components has no separate cell
_TINY = 1e-300
_BEYOND = 6  # components beyond the last row that samples distinguish


@dataclass(frozen=True)
class ComponentRow:
    """The bounds and estimates of P[C = c] for one c.

    ``lemma``, Lemma C.5 of BBGN20, and ``bound``, `ikos.graphs.parts_bound`, are rounded up, and
    None if they are not stated; ``slack``, rounded down, is the factor by which ``exact`` is below
    the smaller one. ``seen`` sampled graphs had c components, which gives the interval ``sampled``;
    ``planted`` is the estimate by importance samples.
    """

    c: int
    exact: Enclosure
    lemma: mpfr | None
    bound: mpfr | None
    slack: float | None
    seen: int
    sampled: Interval
    planted: Enclosure | None

    @property
    def bounded(self) -> bool | None:
        """Whether ``exact`` is proved to be below every bound, or above one; None if neither."""
        if self.slack is None:
            return None
        bounds = [bound for bound in (self.lemma, self.bound) if bound is not None]
        return True if self.slack >= 1 else False if min(bounds) < self.exact.low else None


@dataclass(frozen=True)
class ComponentCheck:
    """The exact distribution, the bounds and samples of the number of components.

    ``rows`` has a `ComponentRow` for c = 1, 2, ..., ``tally`` the sampled graphs, and ``planted``
    the importance samples for 2, 3, ... components and more; ``fit`` and ``planted_fit`` are upper
    bounds on the p-values of these samples under the exact distribution, None without samples.
    ``excess`` encloses E[q^C]/q - 1, and ``excess_bound`` Lemma C.5's bound on it, if known.
    """

    n: int
    graph: ShareGraph
    q: int | None
    confidence: float
    rows: tuple[ComponentRow, ...]
    tally: Tally
    planted: tuple[PlantedTally, ...]
    fit: float | None
    planted_fit: float | None
    excess: Enclosure | None
    excess_bound: Enclosure | None

    def __str__(self) -> str:
        """Return the bounds and estimates for each c, and the verdict."""
        lines = [f"n = {self.n:,}, {self.graph}"]
        for row in self.rows:
            bound = "" if row.bound is None else f"at most {row.bound:.3Ug}, "
            seen = f"seen {row.seen:,} times in {self.tally.trials:,}"
            lines.append(f"c = {row.c}: P = {row.exact}, {bound}{seen}")
        return "\n".join((*lines, *self.verdict))

    @property
    def bounded(self) -> bool | None:
        """Whether the exact distribution is proved to be below every bound, or above one.

        None if the known digits do not decide it, or no bound is stated.
        """
        below = {*self._places.values()}
        return False if False in below else None if None in below else True

    @property
    def _places(self) -> dict[str, bool | None]:
        """The values compared with bounds, and whether each is below them."""
        places = {f"c = {row.c}": row.bounded for row in self.rows}
        if (excess := self.excess) is not None and (bound := self.excess_bound) is not None:
            above = False if excess.low > bound.high else None
            places["E[q^C]"] = True if excess.high <= bound.low else above
        return places

    @property
    def agrees(self) -> bool | None:
        """Whether the samples agree with the exact distribution; None if there are none.

        Samples of the right model fail with probability at most `FALSE_ALARM` for each kind.
        """
        fits = [fit for fit in (self.fit, self.planted_fit) if fit is not None]
        return min(fits) >= FALSE_ALARM if fits else None

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts a bound or the exact distribution; see also ``verdict``."""
        return self.bounded is not False and self.agrees is not False

    @property
    def unseen(self) -> int:
        """The smallest c that no sampled graph reached; n + 1 if one had n components."""
        return max(self.tally.counts, default=0) + 1

    @property
    def verdict(self) -> tuple[str, ...]:
        """The verdict in sentences: what is proved, what was sampled, and what is too rare."""
        return tuple(_verdict(self))


def check_components(
    n: int,
    m: int,
    trials: int,
    *,
    q: int | None = None,
    shuffler: str = "parallel",
    clear_share: bool = True,
    largest: int | None = None,
    planted: int | None = None,
    confidence: float = 0.95,
    backend: str = "scipy",
    rng: RandomSource | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> ComponentCheck:
    """Compare the distribution of the number of components with its bounds and with samples.

    Parameters
    ----------
    n, m, trials, shuffler, clear_share, backend, rng, executor
        As for `component_counts`; n at most 10^6 where fewer than two messages hide, and m at most
        10,000.
    q : int, optional
        Order of the group, at least 2: E[q^C] is compared too.
    largest : int, optional
        The last c of the comparison, up to 64; by default 6, or n if smaller.
    planted : int, optional
        Graphs for importance sampling, for each c from 2 on; 0 for none. By default 2000, fewer for
        large graphs, such that all c together have at most 20 million slots, but at least 2.
    confidence : float
        Confidence level of each interval.
    progress : callable, optional
        Called with the work done and in all. Ctrl-C raises `Interrupted`, which holds the check of
        the graphs sampled by then, perhaps none.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> check = check_components(20, 3, 20_000, q=16, rng=DeterministicRandom(1))
    >>> check.holds, check.bounded, check.agrees
    (True, True, True)
    >>> print(check.rows[1].exact, check.rows[1].planted)
    0.0025179 [0.0025053, 0.0025225]
    """
    plan = CheckPlan.of(
        Model.of(n, m, shuffler, clear_share), trials, q, largest, planted, confidence
    )
    choice("backend", backend, BACKENDS)
    users, messages, options = plan.model.n, plan.model.graph.m, plan.options
    shown = _stages(progress, plan.work)
    # first, so that samples can be compared at once after an interruption
    known = _Exact.of(plan, next(shown))
    options |= {"rng": secure(rng), "executor": executor}
    try:
        tally = tally_components(
            users, messages, plan.trials, backend=backend, progress=next(shown), **options
        )
    except Interrupted as stop:
        stop.partial = known.check(stop.partial or Tally(users, plan.model.graph, 0, {}, 0))
        raise
    rare: list[PlantedTally] = []
    try:
        for c in plan.parts:  # one by one, so that Ctrl-C keeps what is done
            stage = next(shown)
            rare.append(rare_components(
                users, messages, plan.planted, at_least=c, progress=stage, **options
            ))  # fmt: skip
    except KeyboardInterrupt:
        done = known.check(tally, rare)
        what = "graphs, in the importance samples"
        raise Interrupted(done, plan.trials, plan.trials, what) from None
    return known.check(tally, rare)


@dataclass(frozen=True)
class CheckPlan:
    """The plan of a check: c = 1, ..., ``rows``, and ``planted`` importance samples for each.

    ``q`` is the order of the group, or None.
    """

    model: Model
    trials: int
    q: int | None
    rows: int
    planted: int
    confidence: float

    @classmethod
    def of(
        cls,
        model: Model,
        trials: object,
        q: object,
        largest: object,
        planted: object,
        level: object,
    ) -> CheckPlan:
        """Check the arguments of `check_components`."""
        trials = integer("trials", trials, low=1, high=MAX_TRIALS)
        order = None if q is None else integer("q", q, low=2)
        confidence = float(number("confidence", level, above=0, below=1))
        clopper_pearson(0, 1, confidence)  # refuses a confidence too near to 1
        rows = min(model.n, _ROWS) if largest is None else largest
        rows = integer("largest", rows, low=1, high=min(model.n, MAX_ROWS))
        if model.graph.hiding < 2:  # many components are common
            planted = integer("planted", planted or 0, high=0)
        elif planted is None:
            planted = max(2, min(_PLANTED, _SLOTS_PLANTED // (model.slots * rows)))
        planted = integer("planted", planted, low=0, high=MAX_TRIALS)
        return cls(model, trials, order, rows, planted, confidence)

    @property
    def options(self) -> dict[str, Any]:
        """The graph's model, as keywords."""
        graph = self.model.graph
        return {"shuffler": graph.shuffler, "clear_share": graph.clear_share}

    @property
    def parts(self) -> range:
        """The numbers of components of the importance samples."""
        return range(2, self.rows + 1 if self.planted else 2)

    @property
    def reach(self) -> int:
        """The last c of the exact distribution: samples distinguish some more than the rows."""
        return min(self.model.n, self.rows + _BEYOND)

    @property
    def work(self) -> list[int]:
        """The work of each stage, in slots drawn, roughly."""
        n, slots = self.model.n, self.model.slots
        exact = self.reach * (16 * n if self.model.graph.hiding < 2 else min(n, 512) ** 2)
        return [exact, self.trials * slots, *[self.planted * slots for _ in self.parts]]


@dataclass(frozen=True)
class _Exact:
    """The computed values, not sampled: Lemma C.5, the library's bound and the slack for each c."""

    plan: CheckPlan
    distribution: Sequence[Enclosure]
    bounds: Sequence[tuple[mpfr | None, mpfr | None, float | None]]
    moments: tuple[Enclosure | None, Enclosure | None]

    @classmethod
    def of(cls, plan: CheckPlan, progress: Progress | None) -> _Exact:
        n, graph, rows = plan.model.n, plan.model.graph, plan.rows
        distribution = enclosed_law(n, graph.m, plan.reach, progress=progress, **plan.options)
        moments = (None, None) if plan.q is None else _moments(plan, plan.q, distribution)
        stated = {name: bound.values for name, bound in BOUNDS.items() if bound.covers(n, graph)}
        upper = {name: values(n, graph, rows, UP) for name, values in stated.items()}
        lower = [values(n, graph, rows, DOWN) for values in stated.values()]
        nothing = [None] * rows
        slacks: Sequence[float | None] = nothing
        if lower:
            with rounding(DOWN):
                pairs = zip(zip(*lower, strict=True), distribution, strict=False)
                slacks = [float_down(min(bounds) / exact.high) for bounds, exact in pairs]
        columns = upper.get("lemma_c5", nothing), upper.get("parts", nothing), slacks
        return cls(plan, distribution, list(zip(*columns, strict=True)), moments)

    def check(self, tally: Tally, rare: Sequence[PlantedTally] = ()) -> ComponentCheck:
        """Return the computed values, not the samples."""
        plan, level = self.plan, self.plan.confidence
        planted = {c: sample.enclosure(c, level) for c, sample in enumerate(rare, 2)}
        rows = tuple(
            ComponentRow(c, exact, *bounds, tally[c], tally.probability(c, level), planted.get(c))
            for c, (exact, bounds) in enumerate(
                zip(self.distribution, self.bounds, strict=False), 1
            )
        )
        return ComponentCheck(
            plan.model.n, plan.model.graph, plan.q, level, rows, tally, tuple(rare),
            _fit(tally, self.distribution) if tally.trials else None,
            _planted_fit(rare, self.distribution) if rare else None, *self.moments,
        )  # fmt: skip


def _stages(progress: Progress | None, work: Sequence[int]) -> Iterator[Progress | None]:
    """Yield the callback of each stage, for the progress of that stage."""

    def told(before: int, amount: int, done: int, of: int) -> None:
        assert progress is not None
        progress(before + amount * done // of, sum(work))

    for i, amount in enumerate(work):
        yield progress and partial(told, sum(work[:i]), amount)


def _moments(
    plan: CheckPlan, q: int, distribution: Sequence[Enclosure]
) -> tuple[Enclosure | None, Enclosure | None]:
    """Return E[q^C]/q - 1, from below by the first values of c alone, and Lemma C.5's bound."""
    n, graph = plan.model.n, plan.model.graph
    excess = bound = None
    if n <= MAX_LAW_USERS:
        with contextlib.suppress(ValueError):  # q is too large to compute with
            excess = component_moment(n, graph.m, q, **plan.options).excess
    elif applies(n, graph):
        excess = largest_component(n, q, graph).excess()
    if BOUNDS["lemma_c5"].covers(n, graph):
        with contextlib.suppress(ValueError):  # q is too large for it
            bound = Enclosure(*(lemma_excess(n, graph.m, q, way) for way in (DOWN, UP)))
    with rounding(DOWN):
        least = gmpy2.fsum([(mpfr(q) ** c - 1) * p.low for c, p in enumerate(distribution)])
    return None if excess is None else Enclosure(least, excess), bound


# The fit of the samples


def _p_value(seen: Sequence[int], chances: Sequence[mpfr], trials: int) -> float:
    """Bound the p-value of counts of some cells of a sample; the rest is one more cell."""
    with rounding(UP):
        rest = max(1 - gmpy2.fsum(chances), mpfr(_TINY))
    cells = list(map(nearest, [*chances, rest]))
    return p_value_bound([*seen, trials - sum(seen)], cells)


def _fit(tally: Tally, distribution: Sequence[Enclosure]) -> float:
    """Bound the p-value of sampled counts; rare values share one cell, chosen beforehand."""
    with rounding(DOWN):
        common = [c for c, p in enumerate(distribution, 1) if p.low * tally.trials >= _RARE]
    return _p_value(
        [tally[c] for c in common], [distribution[c - 1].low for c in common], tally.trials
    )


def _planted_fit(rare: Sequence[PlantedTally], distribution: Sequence[Enclosure]) -> float:
    """Return the same for importance samples: the smallest p-value times their number.

    Graphs with c parts planted have k components with probability S(k, c) P[C = k] / (Q_c / c!).
    """
    fits = []
    for tally in rare:
        reached = range(tally.parts, len(distribution) + 1)
        with rounding(DOWN):
            chances = [
                tally.divisions(k) * distribution[k - 1].low / tally.expected.high for k in reached
            ]
        fits.append(_p_value([tally.counts.get(k, 0) for k in reached], chances, tally.trials))
    return min(1.0, min(fits) * len(fits))


# The verdict


def _verdict(check: ComponentCheck) -> Iterator[str]:
    yield _about_bounds(check)
    if check.fit is None:
        yield "No graph was sampled."
        return
    graphs = _graphs(check.tally.trials)
    if check.fit >= FALSE_ALARM:
        yield f"A sample of {graphs} agrees with the exact distribution."
    else:
        yield (
            f"CONTRADICTED: a sample of {graphs} is farther from the exact distribution than "
            "chance explains."
        )
    if check.unseen > check.n:
        yield f"Seen up to C = {check.n}, the most there can be."
    else:
        yield _about_unseen(check, check.unseen)
    if check.planted_fit is None:
        return
    rare = check.planted[-1]
    if check.planted_fit >= FALSE_ALARM:
        yield (
            f"Importance samples of {_graphs(rare.trials)} for each c agree with the exact "
            f"distribution, down to P[C = {rare.parts}] = "
            f"{check.rows[rare.parts - 1].exact.high:.3Ng}."
        )
    else:
        yield (
            f"CONTRADICTED: importance samples of {_graphs(rare.trials)} are farther from the "
            "exact distribution than chance explains."
        )


def _about_unseen(check: ComponentCheck, c: int) -> str:
    seldom = (
        f"Not seen: {c} components or more. The sample says P[C >= {c}] < "
        f"{at_least(check.tally.tail(c, check.confidence).high, 2)} with "
        f"{percent(check.confidence)} confidence, and no more."
    )
    if c > len(check.rows):
        return seldom
    chance = check.rows[c - 1].exact.high
    with rounding(DOWN):
        graphs = f"{int(1 / chance):,}" if 1 / chance < 1e6 else f"{1 / chance:.2Dg}"
    return f"{seldom} P[C = {c}] is {chance:.3Ng}: one in {graphs} graphs."


def _about_bounds(check: ComponentCheck) -> str:
    slacks = {row.c: row.slack for row in check.rows if row.slack is not None}
    if not slacks:
        return "Nothing to prove: no bound is stated where fewer than two messages hide."
    if check.bounded:
        factor = at_most(min((slack for c, slack in slacks.items() if c > 1), default=1.0), 3)
        proved = (
            f"Proved for c = 1 to {len(check.rows)}: the exact distribution is below the bounds"
        )
        return (
            f"{proved}."
            if factor == "1"
            else f"{proved}, for c >= 2 by a factor of {factor} or more."
        )
    places = ", ".join(at for at, below in check._places.items() if below is check.bounded)
    if check.bounded is False:
        return f"VIOLATED: the exact distribution is above a bound, at {places}."
    return f"UNDECIDED: the known digits do not decide whether a bound holds at {places}."


def _graphs(many: int) -> str:
    return "1 graph" if many == 1 else f"{many:,} graphs"
