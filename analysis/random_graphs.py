"""Every table and figure about the random share graphs, computed anew.

    python -m analysis.random_graphs --output DIR

writes into DIR, each file whole or not at all:

- ``component-law.md``, ``.csv``: P[C = c] exactly, and its bounds;
- ``component-bounds.md``, ``.csv``: the smallest factor between the bounds and the exact law, over
  all n in a range and every c, for each m;
- ``rare-components.md``, ``.csv``: what plain sampling and importance sampling see of P[C >= c];
- ``components-parallel.svg``, ``.png`` and ``components-single.svg``, ``.png``: P[C = c] exact,
  sampled, importance-sampled and bounded, for parallel shufflers with a clear share and for a
  single one without;
- ``second-moment.svg``, ``.png``: E[q^C]/q - 1 against the number of users;
- ``graph-connected``, ``graph-components``, ``graph-bipartite``, each ``.svg`` and ``.png``: share
  graphs.

The same options write the same bytes: graphs come from a seeded generator. They are an experiment,
and no one's privacy rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click
from gmpy2 import mpfr

from analysis.lemma_c5 import MESSAGES, factor_text
from analysis.lemma_c5 import USERS as SWEPT_USERS
from analysis.output import Files, csv_text, main, markdown, plain_number, program, steps
from analysis.plots.second_moments import excess_curve, excess_figure
from ikos.cli.output import progress
from ikos.cli.types import Whole
from ikos.counts.share_graph import ShareGraph
from ikos.graphs import (
    PlantedTally,
    Sweep,
    Tally,
    check_components,
    component_bound,
    enclosed_law,
    multigraph,
    parts_bound,
    rare_components,
    sample_targets,
    sweep,
    tally_components,
)
from ikos.graphs.component_bounds import BOUNDS
from ikos.numeric.rounding import UP, float_up, rounding
from ikos.plots.components import components_figure
from ikos.plots.share_graph import graph_figure
from ikos.primitives.randomness import RandomSource
from ikos.results.sums import at_least
from ikos.testing import DeterministicRandom

MODELS = (("parallel", True), ("parallel", False), ("single", True), ("single", False))

LAW = ((20, 3), (100, 3), (100, 4), (300, 5), (300, 10))
"""Users and messages of the table of the law."""

LAW_PARTS = (2, 3, 4)

RARE = (
    (20, 3, 2),
    (20, 3, 5),
    (100, 4, 2),
    (100, 4, 3),
    (300, 5, 2),
    (300, 5, 4),
    (300, 10, 2),
    (10**6, 3, 2),
)
"""Users, messages and components of the table of rare events."""

COMPARED = (20, 3)
"""Users and messages of the figures of the law, whose second model has a message more."""

MOMENT = (16, (2, 3, 4, 5, 6))
"""Order of the group and messages of the figure of the second moment."""

DRAWN = (
    ("graph-connected", 12, 3, True, 1),
    ("graph-components", 12, 2, True, 2759),
    ("graph-bipartite", 10, 2, False, 0),
)
"""Name, users, messages, clear share and seed of the graphs that are drawn."""

_SLOTS = 100
"""Most slots of the table of rare events, for each graph that is asked for."""


# The law and its bounds


def law_rows(n: int, m: int, shuffler: str, clear_share: bool) -> Iterator[tuple[Any, ...]]:
    """Yield c, P[C = c] rounded up, Lemma C.5 where it is stated, and the library's bound."""
    model: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear_share}
    law = enclosed_law(n, m, max(LAW_PARTS), **model)
    for c in LAW_PARTS:
        stated = BOUNDS["lemma_c5"].covers(n, ShareGraph(m, **model))
        lemma = component_bound(n, m, c) if stated else None
        yield c, law[c - 1].high, lemma, parts_bound(n, m, c, **model)


_LAW_NOTE = """\
The distribution of the number C of components for n users with m messages of each, parallel
shufflers and a clear share, and two bounds of it, all rounded up. *parts*:
`ikos.graphs.parts_bound`.
"""


def _law_tables() -> Iterator[tuple[str, str]]:
    main = [
        [plain_number(n), str(m), str(c), *(_up(value) for value in values)]
        for n, m in LAW
        for c, *values in law_rows(n, m, "parallel", True)
    ]
    table = markdown(["n", "m", "c", "P[C = c]", "Lemma C.5", "parts"], main)
    yield "component-law.md", f"{_LAW_NOTE}\n{table}"
    yield (
        "component-law.csv",
        csv_text(
            ["n", "m", "shuffler", "clear", "c", "exact", "lemma_c5", "parts"],
            (
                (n, m, shuffler, int(clear), c, f"{exact:.17Ng}", lemma, parts)
                for n, m in LAW
                for shuffler, clear in MODELS
                for c, exact, lemma, parts in law_rows(n, m, shuffler, clear)
            ),
        ),
    )


def _up(value: float | mpfr) -> str:
    return at_least(float_up(value), 4)


# Everywhere in a range


def swept(
    users: tuple[int, int],
    messages: tuple[int, int],
    step: Callable[[int, int, int], None] | None = None,
) -> list[Sweep]:
    """Compare Lemma C.5 and, in all four models, the bound by parts with the exact law."""

    def shown(number: int) -> Callable[[int, int], None] | None:
        return None if step is None else lambda done, whole: step(number, done, whole)

    first = sweep(users, messages, progress=shown(0))
    return [
        first,
        *(
            sweep(
                users,
                messages,
                bound="parts",
                shuffler=shuffler,
                clear_share=clear,
                progress=shown(number),
            )
            for number, (shuffler, clear) in enumerate(MODELS, 1)
        ),
    ]


_BOUNDS_NOTE = """\
The smallest factor between a bound and P[C = c], rounded down, over every n from {low} to {high}
and every c from 2 to n, and at which (n, c). *Lemma C.5*: BBGN20, for p+. *parts*:
`ikos.graphs.parts_bound` for p parallel shufflers, s a single one, + with a clear share. In each
column {compared:,} triples (n, m, c) were compared in directed rounding, those of c = 1 included.
"""


def _bounds_tables(found: Sequence[Sweep]) -> Iterator[tuple[str, str]]:
    names = ["Lemma C.5", "parts p+", "parts p", "parts s+", "parts s"]
    rows = [
        [
            str(slacks[0].m),
            *(f"{factor_text(slack.factor)} at ({slack.n}, {slack.c})" for slack in slacks),
        ]
        for slacks in zip(*(each.smallest for each in found), strict=True)
    ]
    low, high = found[0].users
    note = _BOUNDS_NOTE.format(low=low, high=high, compared=found[0].compared)
    yield "component-bounds.md", f"{note}\n{markdown(['m', *names], rows)}"
    yield (
        "component-bounds.csv",
        csv_text(
            ["bound", "shuffler", "clear", "m", "n", "c", "factor", "compared", "unproved"],
            (
                (
                    each.bound,
                    each.shuffler,
                    int(each.clear_share),
                    slack.m,
                    slack.n,
                    slack.c,
                    slack.factor,
                    each.compared,
                    len(each.unproved),
                )
                for each in found
                for slack in each.smallest
            ),
        ),
    )


# Rare events


@dataclass(frozen=True)
class Rare:
    """What samples say of P[C >= c], next to what is known."""

    c: int
    tally: Tally
    planted: PlantedTally
    exact: mpfr


def rare_rows(
    trials: int, rng: RandomSource, step: Callable[[int], None] | None = None
) -> list[Rare]:
    """Sample graphs in both ways, at each of `RARE`."""
    found = []
    for n, m, c in RARE:
        plain, planted = _rare_trials(trials, n, m)
        tally = tally_components(n, m, plain, rng=rng)
        rare = rare_components(n, m, planted, at_least=c, rng=rng)
        found.append(Rare(c, tally, rare, _tail(n, m, c)))
        if step is not None:
            step((plain + planted) * n * m)
    return found


def _rare_trials(trials: int, n: int, m: int) -> tuple[int, int]:
    most = max(1, _SLOTS * trials // (n * m))
    return min(trials, most), min(max(100, trials // 100), most)


def _tail(n: int, m: int, c: int) -> mpfr:
    """Return P[C >= c] rounded up: six terms exactly, the others by a bound."""
    last = min(n, c + 5)
    law = enclosed_law(n, m, last)
    with rounding(UP):
        total = sum((entry.high for entry in law[c - 1 :]), mpfr(0))
        # each bound is at most kappa/7 < 1/2 of the one before
        return total if last == n else total + 2 * mpfr(parts_bound(n, m, last + 1))


_RARE_NOTE = """\
P[C >= c] for n users with m messages of each, parallel shufflers and a clear share. *seen*: how
many of the sampled graphs had c components or more, and what that proves with 95 % confidence
(Clopper and Pearson). *estimate*: by importance sampling, from *graphs* samples, and its 95 %
*interval*. *estimate* and *exact* are rounded to the nearest.
"""


def _rare_tables(found: Iterable[Rare]) -> Iterator[tuple[str, str]]:
    found = list(found)
    header = ["n", "m", "c", "seen", "hence P <", "graphs", "estimate", "interval", "exact"]
    rows = [
        [
            plain_number(rare.planted.n),
            str(rare.planted.graph.m),
            str(rare.c),
            f"{rare.tally.at_least(rare.c):,} of {plain_number(rare.tally.trials)}",
            at_least(rare.tally.tail(rare.c).high, 2),
            plain_number(rare.planted.trials),
            f"{rare.planted.estimate:.4g}",
            _relative(rare.planted),
            f"{rare.exact:.4Ng}",
        ]
        for rare in found
    ]
    yield "rare-components.md", f"{_RARE_NOTE}\n{markdown(header, rows)}"
    columns = ["n", "m", "c", "sampled", "seen", "seen_low", "seen_high", "planted", "estimate"]
    yield (
        "rare-components.csv",
        csv_text(
            [*columns, "low", "high", "exact"],
            (
                (
                    rare.planted.n,
                    rare.planted.graph.m,
                    rare.c,
                    rare.tally.trials,
                    rare.tally.at_least(rare.c),
                    *rare.tally.tail(rare.c),
                    rare.planted.trials,
                    rare.planted.estimate,
                    *rare.planted.interval(),
                    f"{rare.exact:.17Ng}",
                )
                for rare in found
            ),
        ),
    )


def _relative(tally: PlantedTally) -> str:
    """Return the interval as percentages above and below the estimate, rounded outwards."""
    low, high = (100 * (end / tally.estimate - 1) for end in tally.interval())
    down = math.ceil(-100 * low) / 100
    return f"−{down:.2f} %, +{math.ceil(100 * high) / 100:.2f} %"


# The program


@program("--output build/figures", "--output build/figures --trials 10000000")
@click.option(
    "--trials",
    type=Whole(100),
    help="Graphs to sample, fewer of large ones  [default: 1000000; 20000 with --quick].",
)
def command(files: Files, trials: int | None, seed: int, quick: bool) -> None:
    """Compute all tables and figures about the random share graphs.

    Takes two minutes.
    """
    if trials is None:
        trials = 20_000 if quick else 1_000_000
    for name, n, m, clear, drawing in DRAWN:
        targets = sample_targets(n, m, rng=DeterministicRandom(drawing))[0]
        files.figure(name, graph_figure(multigraph(targets, clear_share=clear)))
    for name, text in _law_tables():
        files.text(name, text)
    files.figure("second-moment", _moment_figure(*((200, 40) if quick else (1000, 1000))))
    rng = DeterministicRandom(seed)
    for name, shuffler, clear, more in (
        ("components-parallel", "parallel", True, 0),
        ("components-single", "single", False, 1),
    ):
        n, m = COMPARED
        with progress("sampling") as shown:
            check = check_components(
                n,
                m + more,
                trials,
                shuffler=shuffler,
                clear_share=clear,
                rng=rng,
                progress=shown,
            )
        files.figure(name, components_figure(check))
    weight = sum(sum(_rare_trials(trials, n, m)) * n * m for n, m, _ in RARE)
    with steps("sampling rare events", weight) as step:
        rare = rare_rows(trials, rng, step)
    for name, text in _rare_tables(rare):
        files.text(name, text)
    with progress("comparing bounds") as shown:
        found = swept(
            (19, 40) if quick else SWEPT_USERS,
            (3, 4) if quick else MESSAGES,
            lambda number, done, whole: shown(number * whole + done, 5 * whole),
        )
    for name, text in _bounds_tables(found):
        files.text(name, text)


def _moment_figure(most: int, points: int) -> Any:
    """Return the figure of the second moment for users up to ``most``, at some points."""
    q, messages = MOMENT
    users = [round(5 * (most / 5) ** (i / points)) for i in range(points + 1)]
    return excess_figure([excess_curve(users, m, q) for m in messages])


if __name__ == "__main__":
    main(command)
