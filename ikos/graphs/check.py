"""The bounds on P[C = c] next to the exact distribution and to samples, with a verdict."""

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
"""Samples contradict the exact distribution if chance takes them this far from it this rarely."""

_ROWS, MAX_ROWS = 6, 64
_PLANTED, _SLOTS_PLANTED = 2000, 20_000_000  # of each number of components, and of all
_RARE = 1e-3  # expected graphs below which a number of components has no cell of its own
_TINY = 1e-300
_BEYOND = 6  # components beyond the last row that samples distinguish


@dataclass(frozen=True)
class ComponentRow:
    """What is known of P[C = c] for one c.

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
        """Return what is known for each c, and the verdict."""
        lines = [f"n = {self.n:,}, {self.graph}"]
        for row in self.rows:
            bound = "" if row.bound is None else f"at most {row.bound:.3Ug}, "
            seen = f"seen {row.seen:,} times in {self.tally.trials:,}"
            lines.append(f"c = {row.c}: P = {row.exact}, {bound}{seen}")
        return "\n".join((*lines, *self.verdict))

    @property
    def bounded(self) -> bool | None:
        """Whether the exact distribution is proved to be below every bound, or above one.

        None if what is known does not tell, or no bound is stated.
        """
        found = {*self._places.values()}
        return False if False in found else None if None in found else True

    @property
    def _places(self) -> dict[str, bool | None]:
        """What is compared with bounds, and whether it is below them."""
        found = {f"c = {row.c}": row.bounded for row in self.rows}
        if (excess := self.excess) is not None and (bound := self.excess_bound) is not None:
            above = False if excess.low > bound.high else None
            found["E[q^C]"] = True if excess.high <= bound.low else above
        return found

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
        """What was verified, what was seen, and what could not be, in sentences."""
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
        Graphs for importance sampling, for each c from 2 on; 0 for none. By default 2000, fewer of
        large graphs: as many as have 20 million slots for all c, but at least 2.
    confidence : float
        Of each interval.
    progress : callable, optional
        Called with the work done and in all. At Ctrl-C, the `Interrupted` that is raised holds the
        check of the graphs, perhaps none, sampled by then.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> check = check_components(20, 3, 20_000, q=16, rng=DeterministicRandom(1))
    >>> check.holds, check.bounded, check.agrees
    (True, True, True)
    >>> print(check.rows[1].exact, check.rows[1].planted)
    0.0025179 [0.0025053, 0.0025225]
    """
    model = Model.of(n, m, shuffler, clear_share)
    users, graph = model.n, model.graph
    trials = integer("trials", trials, low=1, high=MAX_TRIALS)
    order = None if q is None else integer("q", q, low=2)
    level = float(number("confidence", confidence, above=0, below=1))
    clopper_pearson(0, 1, level)  # refuses what is too near to 1
    choice("backend", backend, BACKENDS)
    rows = min(users, _ROWS) if largest is None else largest
    rows = integer("largest", rows, low=1, high=min(users, MAX_ROWS))
    if planted is None:
        each = max(2, min(_PLANTED, _SLOTS_PLANTED // (model.slots * rows)))
    else:
        each = integer("planted", planted, low=0, high=MAX_TRIALS)
    if graph.hiding < 2:  # many components are common
        each = integer("planted", planted or 0, high=0)
    last = rows if each else 0
    reach = min(users, rows + _BEYOND)
    # in slots drawn, roughly
    work = [reach * (16 * users if graph.hiding < 2 else min(users, 512) ** 2)]
    work += [trials * model.slots, *[each * model.slots] * max(0, last - 1)]
    shown = _stages(progress, work)

    # first, so that samples can be compared at once after an interruption
    how: dict[str, Any] = {"shuffler": graph.shuffler, "clear_share": graph.clear_share}
    law = enclosed_law(users, graph.m, reach, progress=next(shown), **how)
    moments = (None, None) if order is None else _moments(model, order, law)

    stated = {name: bound.values for name, bound in BOUNDS.items() if bound.covers(users, graph)}
    upper = {name: values(users, graph, rows, UP) for name, values in stated.items()}
    lower = [values(users, graph, rows, DOWN) for values in stated.values()]
    slacks: list[float | None] = [None] * rows
    if lower:
        with rounding(DOWN):
            pairs = zip(zip(*lower, strict=True), law, strict=False)
            slacks = [float_down(min(bounds) / exact.high) for bounds, exact in pairs]

    def compared(tally: Tally, rare: Sequence[PlantedTally] = ()) -> ComponentCheck:
        found = tuple(
            ComponentRow(
                c + 1,
                law[c],
                upper["lemma_c5"][c] if "lemma_c5" in upper else None,
                upper["parts"][c] if "parts" in upper else None,
                slacks[c],
                tally[c + 1],
                tally.probability(c + 1, level),
                rare[c - 1].enclosure(c + 1, level) if 1 <= c <= len(rare) else None,
            )
            for c in range(rows)
        )
        fit = _fit(tally, law) if tally.trials else None
        planted_fit = _planted_fit(rare, law) if rare else None
        return ComponentCheck(
            users, graph, order, level, found, tally, tuple(rare), fit, planted_fit, *moments
        )

    how |= {"rng": secure(rng), "executor": executor}
    try:
        tally = tally_components(
            users, graph.m, trials, backend=backend, progress=next(shown), **how
        )
    except Interrupted as stop:
        stop.partial = compared(stop.partial or Tally(users, graph, 0, {}, 0))
        raise
    rare: list[PlantedTally] = []
    try:
        for c in range(2, last + 1):  # one by one, so that Ctrl-C keeps what is done
            told = next(shown)
            rare.append(rare_components(users, graph.m, each, at_least=c, progress=told, **how))
    except KeyboardInterrupt:
        what = "graphs, in the importance samples"
        raise Interrupted(compared(tally, rare), trials, trials, what) from None
    return compared(tally, rare)


def _stages(progress: Progress | None, work: Sequence[int]) -> Iterator[Progress | None]:
    """Yield the callback of each stage, for the progress of that stage."""

    def told(before: int, amount: int, done: int, of: int) -> None:
        assert progress is not None
        progress(before + amount * done // of, sum(work))

    for i, amount in enumerate(work):
        yield progress and partial(told, sum(work[:i]), amount)


def _moments(
    model: Model, q: int, law: Sequence[Enclosure]
) -> tuple[Enclosure | None, Enclosure | None]:
    """Return E[q^C]/q - 1, from below by the first values of c alone, and Lemma C.5's bound."""
    n, graph = model.n, model.graph
    how: dict[str, Any] = {"shuffler": graph.shuffler, "clear_share": graph.clear_share}
    excess = bound = None
    if n <= MAX_LAW_USERS:
        with contextlib.suppress(ValueError):  # q is too large to compute with
            excess = component_moment(n, graph.m, q, **how).excess
    elif applies(n, graph):
        excess = largest_component(n, q, graph).excess()
    if BOUNDS["lemma_c5"].covers(n, graph):
        with contextlib.suppress(ValueError):  # q is too large for it
            bound = Enclosure(*(lemma_excess(n, graph.m, q, way) for way in (DOWN, UP)))
    with rounding(DOWN):
        least = gmpy2.fsum([(mpfr(q) ** c - 1) * p.low for c, p in enumerate(law)])
    return None if excess is None else Enclosure(least, excess), bound


# Do the samples fit?


def _p_value(seen: Sequence[int], chances: Sequence[mpfr], trials: int) -> float:
    """Bound the p-value of counts of some cells of a sample; what is left is one cell more."""
    with rounding(UP):
        rest = max(1 - gmpy2.fsum(chances), mpfr(_TINY))
    cells = list(map(nearest, [*chances, rest]))
    return p_value_bound([*seen, trials - sum(seen)], cells)


def _fit(tally: Tally, law: Sequence[Enclosure]) -> float:
    """Bound the p-value of sampled counts; rare values share one cell, chosen beforehand."""
    with rounding(DOWN):
        common = [c for c, p in enumerate(law, 1) if p.low * tally.trials >= _RARE]
    return _p_value([tally[c] for c in common], [law[c - 1].low for c in common], tally.trials)


def _planted_fit(rare: Sequence[PlantedTally], law: Sequence[Enclosure]) -> float:
    """Return the same for importance samples: the smallest p-value times their number.

    Graphs with c parts planted have k components with probability S(k, c) P[C = k] / (Q_c / c!).
    """
    fits = []
    for tally in rare:
        reached = range(tally.parts, len(law) + 1)
        with rounding(DOWN):
            chances = [tally.divisions(k) * law[k - 1].low / tally.expected.high for k in reached]
        fits.append(_p_value([tally.counts.get(k, 0) for k in reached], chances, tally.trials))
    return min(1.0, min(fits) * len(fits))


# The verdict


def _verdict(check: ComponentCheck) -> Iterator[str]:
    yield _about_bounds(check)
    trials, c = check.tally.trials, check.unseen
    if not trials:
        yield "No graph was sampled."
        return
    assert check.fit is not None
    sample = f"sample of {_graphs(trials)}"
    yield _fits(check.fit, f"A {sample} agrees", f"a {sample} is")
    if c > check.n:
        yield f"Seen up to C = {check.n}, the most there can be."
    else:
        yield _about_unseen(check, c)
    if check.planted_fit is not None:
        rare = check.planted[-1]
        sample = f"mportance samples of {_graphs(rare.trials)}"
        reach = f", down to P[C = {rare.parts}] = {check.rows[rare.parts - 1].exact.high:.3Ng}"
        agrees = f"I{sample} for each c agree"
        yield _fits(check.planted_fit, agrees, f"i{sample} are", reach)


def _fits(fit: float, agrees: str, contradicts: str, reach: str = "") -> str:
    if fit >= FALSE_ALARM:
        return f"{agrees} with the exact distribution{reach}."
    return f"CONTRADICTED: {contradicts} farther from the exact distribution than chance explains."


def _about_unseen(check: ComponentCheck, c: int) -> str:
    text = (
        f"Not seen: {c} components or more. The sample says P[C >= {c}] < "
        f"{at_least(check.tally.tail(c, check.confidence).high, 2)} with "
        f"{percent(check.confidence)} confidence, and no more."
    )
    if c <= len(check.rows):
        chance = check.rows[c - 1].exact.high
        with rounding(DOWN):
            many = 1 / chance
            told = f"{int(many):,}" if many < 1e6 else f"{many:.2Dg}"
        text += f" P[C = {c}] is {chance:.3Ng}: one in {told} graphs."
    return text


def _about_bounds(check: ComponentCheck) -> str:
    slacks = {row.c: row.slack for row in check.rows if row.slack is not None}
    if not slacks:
        return "Nothing to prove: no bound is stated where fewer than two messages hide."
    if check.bounded:
        rare = [slack for c, slack in slacks.items() if c > 1]
        through = f" to {len(check.rows)}" if rare else ""
        factor = at_most(min(rare, default=1.0), 3)
        least = "" if factor == "1" else f", for c >= 2 by a factor of {factor} or more"
        return f"Proved for c = 1{through}: the exact distribution is below the bounds{least}."
    places = ", ".join(at for at, said in check._places.items() if said is check.bounded)
    if check.bounded is False:
        return f"VIOLATED: the exact distribution is above a bound, at {places}."
    return f"UNDECIDED: the digits that are known do not tell whether a bound holds at {places}."


def _graphs(many: int) -> str:
    return "1 graph" if many == 1 else f"{many:,} graphs"
