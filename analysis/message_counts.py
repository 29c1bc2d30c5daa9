"""Every table and figure about how many messages are needed, computed anew.

    python -m analysis.message_counts --output DIR

writes into DIR, each file whole or not at all:

- ``message-counts.md``, ``.csv``: the secure sum, every analysis in every setting it covers, and
  the counting floor;
- ``private-message-counts.md``, ``.csv``: the private sum, through Lemma 5.2 and Equation 4 of
  BBGN20, by higher moments and by the second moment;
- ``message-counts.svg``, ``.png``: the secure sum against the number of users;
- ``attack-advantage.svg``, ``.png``, ``.csv``: what the tuple-counting attack gains in experiments,
  between its confidence interval and the proved bound.

The same options write the same bytes: experiments draw from a seeded generator. They measure an
attack on made-up inputs, so that no one's privacy rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click
import gmpy2
from matplotlib.axes import Axes

from analysis.output import Files, csv_text, main, markdown, plain_number, program, steps
from ikos import MessageCount, message_count, private_message_count
from ikos.attacks import Advantage, measure_advantage
from ikos.cli.types import Whole
from ikos.counts.floor import counting_floor
from ikos.counts.recursion import rational_split
from ikos.counts.share_graph import ShareGraph
from ikos.numeric.rounding import UP, float_up, rounding
from ikos.plots import Curve, grid, secure_curves
from ikos.plots.figures import (
    Figure,
    draw_messages,
    label,
    legend_order,
    log_messages,
    users_axis,
)
from ikos.plots.style import ANALYSES, GREY, VERMILLION, power_of_ten
from ikos.primitives.randomness import RandomSource
from ikos.results.sums import at_least
from ikos.testing import DeterministicRandom

SIGMAS = (40, 80, 128)
MODULI_BITS = (32, 64, 128)
USERS = (10, 10**2, 10**3, 10**4, 10**6, 10**9)

SETTINGS = (("parallel", True), ("parallel", False), ("single", True), ("single", False))

PRIVATE = ((10**2, 4), (10**3, 6), (10**4, 8), (10**6, 12), (10**3, 12))
"""Users, and -log10 of delta; epsilon is 1."""

EXPERIMENTS = (
    (5, 16, (1, 2, 3, 4, 5, 6)),
    (10, 64, (1, 2, 3, 4, 5)),
    (30, 1024, (2, 3, 4)),
)
"""Users, order of the group, and shuffled messages of each user."""


# The tables


@dataclass(frozen=True)
class Row:
    """What one analysis says of one setting."""

    n: int
    q: int
    analysis: str
    shuffler: str
    clear: int
    shuffled: int
    count: MessageCount | None

    @property
    def total(self) -> int:
        """Messages of each user, the clear share included."""
        return self.shuffled + self.clear

    @property
    def cells(self) -> tuple[str, str, int, int, int]:
        """The analysis, the setting and the messages."""
        return self.analysis, self.shuffler, self.clear, self.shuffled, self.total

    @property
    def proved(self) -> tuple[float | None, float | None, float | None]:
        """The proved delta, what is left of epsilon, and the proved sigma."""
        count = self.count
        return (count.delta, count.noise_epsilon, count.sigma) if count else (None, None, None)


def _row(n: int, q: int, shuffler: str, count: MessageCount) -> Row:
    assert count.analysis is not None
    return Row(n, q, count.analysis, shuffler, count.clear, count.shuffled, count)


def secure_rows(n: int, q: int, sigma: float) -> list[Row]:
    """Return the floor and every analysis that covers n users, in every setting."""
    rows = []
    for shuffler, clear in SETTINGS:
        shuffled = counting_floor(n, q, sigma, shuffler=shuffler, clear_share=clear)
        rows.append(Row(n, q, "floor", shuffler, int(clear), shuffled, None))
    for analysis in ("second_moment", "balle2020", "ghazi2020", "ishai2006"):
        for shuffler, clear in SETTINGS:
            try:
                count = message_count(
                    n, q, sigma, analysis=analysis, shuffler=shuffler, clear_share=clear
                )
            except ValueError:  # not covered
                continue
            rows.append(_row(n, q, shuffler, count))
    return rows


def private_rows(n: int, epsilon: float, delta: float) -> list[Row]:
    """Return BBGN20's way and the second moment, at a precision of about the square root of n.

    The modulus is the smallest power of two that is at least twice the largest sum.
    """
    precision = math.isqrt(n - 1) + 1
    q = 1 << (2 * n * precision - 1).bit_length()
    ways = [
        ("balle2020", "parallel", True),
        ("higher_moments", "parallel", True),
        *(("second_moment", *setting) for setting in SETTINGS),
    ]
    return [
        _row(
            n,
            q,
            shuffler,
            private_message_count(
                n,
                q,
                epsilon,
                delta,
                precision,
                analysis=analysis,
                shuffler=shuffler,
                clear_share=clear,
            ),
        )
        for analysis, shuffler, clear in ways
    ]


def _total(rows: Iterable[Row], analysis: str, shuffler: str, clear: bool) -> str:
    """Return a total for a table, or a dash where nothing is proved."""
    for row in rows:
        if (row.analysis, row.shuffler, row.clear) == (analysis, shuffler, clear):
            return f"{row.total:,}"
    return "–"


_SECURE_NOTE = """\
Messages of each user for a secure sum, the clear share included. *floor*: no analysis of any
setting can get below, by counting (for a single shuffler and no clear share, where it is lowest).
By the second moment: *p* parallel shufflers, *s* a single one, *+* with a clear share. *balle2020*
is for p+, and asks for the same total in the three other settings; *ghazi2020* and *ishai2006* are
for s. The constants of *ghazi2020* are as BBGN20 states them; the proof is for a prime q. A dash:
not covered.
"""

_PRIVATE_NOTE = """\
Messages of each user for an (ε, δ)-differentially private sum with ε = 1, the clear share
included; precision p = ⌈√n⌉, q the smallest power of two that is at least 2np, at most 1 % of ε
spent on hiding. By *higher* moments, in every setting, and by the second moment: *p* parallel
shufflers, *s* a single one, *+* with a clear share; *noise ε* is what p+ leaves for the noise
(rounded down), *δ* what it proves (rounded up). Through σ there is no loss of ε.
"""


def _tables() -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the tables' files."""
    cells = [
        (sigma, bits, n, secure_rows(n, 1 << bits, sigma))
        for sigma in SIGMAS
        for bits in MODULI_BITS
        for n in USERS
    ]
    exact = [("second_moment", *setting) for setting in SETTINGS]
    others = [
        ("balle2020", "parallel", True),
        ("ghazi2020", "single", False),
        ("ishai2006", "single", False),
    ]
    header = ["σ", "q", "n", "floor", "p+", "p", "s+", "s"]
    table = markdown(
        [*header, *(name for name, *_ in others)],
        (
            [
                str(sigma),
                f"2^{bits}",
                plain_number(n),
                _total(rows, "floor", "single", False),
                *(_total(rows, *column) for column in (*exact, *others)),
            ]
            for sigma, bits, n, rows in cells
        ),
    )
    yield "message-counts.md", f"{_SECURE_NOTE}\n{table}"
    columns = ["sigma", "log2_q", "n", "analysis", "shuffler", "clear", "shuffled", "total"]
    yield (
        "message-counts.csv",
        csv_text(
            [*columns, "sigma_proved"],
            (
                (sigma, bits, n, *row.cells, row.count and row.count.sigma)
                for sigma, bits, n, rows in cells
                for row in rows
            ),
        ),
    )
    yield from _private_tables()


def _private_tables() -> Iterator[tuple[str, str]]:
    cells = [(n, digits, private_rows(n, 1.0, 10.0**-digits)) for n, digits in PRIVATE]

    def shown(n: int, digits: int, rows: list[Row]) -> list[str]:
        count = next(row.count for row in rows if row.analysis == "second_moment")
        assert count is not None
        assert count.delta is not None
        assert count.noise_epsilon is not None
        return [
            plain_number(n),
            f"10^-{digits}",
            f"2^{rows[0].q.bit_length() - 1}",
            _total(rows, "balle2020", "parallel", True),
            _total(rows, "higher_moments", "parallel", True),
            *(_total(rows, "second_moment", *setting) for setting in SETTINGS),
            f"{math.floor(1e4 * count.noise_epsilon) / 1e4:.4f}",
            at_least(count.delta, 2),
        ]

    header = ["n", "δ", "q", "Lemma 5.2, Eq. 4", "higher", "p+", "p", "s+", "s"]
    table = markdown([*header, "noise ε", "δ proved"], (shown(*cell) for cell in cells))
    yield "private-message-counts.md", f"{_PRIVATE_NOTE}\n{table}"
    columns = ["epsilon", "delta", "n", "log2_q", "analysis", "shuffler", "clear", "shuffled"]
    yield (
        "private-message-counts.csv",
        csv_text(
            [*columns, "total", "delta_proved", "noise_epsilon", "sigma_proved"],
            (
                (1, f"1e-{digits}", n, row.q.bit_length() - 1, *row.cells, *row.proved)
                for n, digits, rows in cells
                for row in rows
            ),
        ),
    )


# The figure of the counts


def apart(curves: Sequence[Curve]) -> tuple[list[Curve], list[Curve]]:
    """Return the curves that need their own panel, because they are far above, and the others."""
    near = [curve for curve in curves if curve.name not in ("ishai2006", "ghazi2020")]
    far = [curve for curve in curves if curve not in near]
    totals = [[total for curve in some for _, total in curve.points] for some in (far, near)]
    if all(totals) and min(totals[0]) > 1.5 * max(totals[1]):
        return far, near
    return [], list(curves)


def break_axis(upper: Axes, lower: Axes) -> None:
    """Mark where the axis of the messages is broken, and leave the users to the lower part."""
    upper.tick_params(axis="x", which="both", bottom=False, labelbottom=False)
    upper.spines["bottom"].set_visible(False)
    slash: dict[str, Any] = {
        "marker": [(-1, -0.6), (1, 0.6)], "markersize": 8, "linestyle": "none",
        "color": "k", "markeredgewidth": 1, "clip_on": False,
    }  # fmt: skip
    upper.plot([0], [0], transform=upper.transAxes, **slash)
    lower.plot([0], [1], transform=lower.transAxes, **slash)


def counts_figure(users: Sequence[int], step: Callable[[], None] | None = None) -> Figure:
    """Return messages against users, a row of panels for each sigma and a column for each q."""
    panels: dict[tuple[int, int], list[Curve]] = {}
    for sigma in SIGMAS:
        for bits in MODULI_BITS:
            panels[sigma, bits] = secure_curves(users, 1 << bits, sigma)
            if step is not None:
                step()
    parts = {key: apart(curves) for key, curves in panels.items()}
    if not all(far for far, _ in parts.values()):
        raise ValueError("users must be large enough for the analyses to be far apart")
    high = [m for far, _ in parts.values() for curve in far for _, m in curve.points]
    figure = Figure(figsize=(10.5, 12.0), dpi=150)
    cells = figure.add_gridspec(
        len(SIGMAS),
        len(MODULI_BITS),
        left=0.075,
        right=0.985,
        top=0.93,
        bottom=0.145,
        wspace=0.09,
        hspace=0.15,
    )
    handles: dict[object, Any] = {}
    for i, sigma in enumerate(SIGMAS):
        row = [m for bits in MODULI_BITS for c in parts[sigma, bits][1] for _, m in c.points]
        for j, bits in enumerate(MODULI_BITS):
            halves = cells[i, j].subgridspec(2, 1, height_ratios=(1, 2.3), hspace=0.08)
            upper, lower = figure.add_subplot(halves[0]), figure.add_subplot(halves[1])
            for axes, curves in zip((upper, lower), parts[sigma, bits], strict=True):
                draw_messages(axes, curves)
                users_axis(axes, panels[sigma, bits])
                handles |= {line.get_label(): line for line in axes.get_lines()}
            log_messages(upper, min(high), max(high), decades=2)
            log_messages(lower, min(row), max(row))
            break_axis(upper, lower)
            upper.set_title(f"σ = {sigma} bits,  q = $2^{{{bits}}}$", fontsize=10.5, loc="left")
            if j:
                upper.tick_params(labelleft=False)
                lower.tick_params(labelleft=False)
            else:
                top, bottom = upper.get_position().y1, lower.get_position().y0
                figure.text(
                    0.012,
                    (top + bottom) / 2,
                    "messages per user in all",
                    fontsize=10,
                    rotation=90,
                    va="center",
                    ha="left",
                )
            if i < len(SIGMAS) - 1:
                lower.tick_params(labelbottom=False)
            else:
                lower.set_xlabel("users n", fontsize=10)
    figure.text(
        0.015,
        0.985,
        "Messages of a secure sum: proved to be enough, and proved necessary",
        fontsize=12.5,
        fontweight="bold",
        va="top",
    )
    ordered = legend_order(panels[SIGMAS[0], MODULI_BITS[0]])
    figure.legend(
        [handles[label(curve)] for curve in ordered],
        [label(curve) for curve in ordered],
        loc="lower left",
        bbox_to_anchor=(0.06, 0.027),
        ncols=2,
        frameon=False,
        fontsize=9.5,
        handlelength=2.8,
        columnspacing=3,
    )
    figure.text(
        0.07,
        0.012,
        "balle2020 needs n ≥ 19; the proof behind ghazi2020 needs a prime q.",
        fontsize=8.5,
        color=GREY,
    )
    return figure


# The experiments


@dataclass(frozen=True)
class Measured:
    """An experiment, and the proved bound for what it measures."""

    found: Advantage
    bound: float


def proved_advantage(n: int, q: int, m: int) -> float:
    """Return a proved bound on the total variation for a change on two users, rounded up.

    Parallel shufflers and a clear share: the square root of half of E[q^(C-1); the two users are in
    different components], or 1 where that is more.
    """
    split = rational_split(n, q, ShareGraph(m, "parallel", True), 2)
    with rounding(UP):
        return min(1.0, float_up(gmpy2.sqrt(gmpy2.mpfr(split / 2))))


def measure(
    trials: int, rng: RandomSource, step: Callable[[int], None] | None = None
) -> list[Measured]:
    """Run all experiments."""
    results = []
    for n, q, messages in EXPERIMENTS:
        for m in messages:
            found = measure_advantage(n, q, m, trials, rng=rng)
            results.append(Measured(found, proved_advantage(n, q, m)))
            if step is not None:
                step(_weight(n, m))
    return results


def _weight(n: int, m: int) -> int:
    """Return about how long an experiment takes, in some unit."""
    return int(n ** math.ceil(m / 2))


def _advantage_csv(results: Iterable[Measured]) -> str:
    columns = ["n", "q", "m", "trials", "correct", "estimate", "lower", "upper", "confidence"]
    return csv_text(
        [*columns, "proved_bound", "sqrt_q_over_n_to_m"],
        (
            [*(getattr(result.found, name) for name in columns), result.bound, result.found.scale]
            for result in results
        ),
    )


def advantage_figure(results: Sequence[Measured]) -> Figure:
    """Return what the attack gained against the messages, a panel for each experiment."""
    groups: dict[tuple[int, int], list[Measured]] = {}
    for result in results:
        groups.setdefault((result.found.n, result.found.q), []).append(result)
    lowest = min(min(r.found.scale, r.found.estimate) for r in results if r.found.estimate > 0)
    bottom = 10 ** (math.floor(4 * math.log10(lowest / 1.5)) / 4)
    figure = Figure(figsize=(10.5, 4.6), dpi=150)
    panels = figure.subplots(
        1,
        len(groups),
        sharey=True,
        squeeze=False,
        gridspec_kw={"left": 0.075, "right": 0.985, "top": 0.81, "bottom": 0.27, "wspace": 0.07},
    )[0]
    for axes, ((n, q), group) in zip(panels, groups.items(), strict=True):
        m = [r.found.m for r in group]
        fine = [m[0] + (m[-1] - m[0]) * i / 100 for i in range(101)]
        axes.plot(
            fine,
            [math.sqrt(q / n**x) for x in fine],
            color=GREY,
            linestyle=(0, (1, 1.5)),
            linewidth=1.5,
            label="$\\sqrt{q/n^m}$, the leading term of the proved bound",
            gid="scale",
        )
        axes.plot(
            m,
            [r.bound for r in group],
            color=ANALYSES["second_moment"],
            marker="v",
            markersize=6,
            linewidth=1.6,
            label="proved: no attack gains more (exact, a change on two users)",
            gid="bound",
        )
        estimates = [r.found.estimate for r in group]
        below = [r.found.estimate - r.found.lower for r in group]
        above = [r.found.upper - r.found.estimate for r in group]
        axes.errorbar(
            m,
            estimates,
            yerr=[below, above],
            color=VERMILLION,
            fmt="o",
            markersize=4.5,
            capsize=3.5,
            linewidth=1.4,
            label=(f"measured, with its {100 * group[0].found.confidence:g} % confidence interval"),
            zorder=5,
        )
        axes.set_yscale("log")
        axes.set_ylim(bottom, 1.6)
        axes.set_xlim(m[0] - 0.4, m[-1] + 0.4)
        axes.set_xticks(m)
        axes.grid(which="major", color="#DDDDDD", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=9)
        axes.set_title(f"n = {power_of_ten(n)} users,  q = {q:,}", fontsize=10.5, loc="left")
        axes.set_xlabel("shuffled messages per user, m", fontsize=10)
    panels[0].yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    panels[0].set_ylabel("advantage", fontsize=10)
    figure.text(
        0.015,
        0.975,
        "The tuple-counting attack on parallel shufflers with a clear share: measured and proved",
        fontsize=12.5,
        fontweight="bold",
        va="top",
    )
    cut = any(r.found.lower < bottom for r in results)
    figure.text(
        0.015,
        0.905,
        f"{results[0].found.trials:,} simulated views for each point"
        + ("; intervals go on below the axis where they touch it" if cut else ""),
        fontsize=9,
        color=GREY,
        va="top",
    )
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0.06, 0.0),
        ncols=2,
        frameon=False,
        fontsize=9.5,
        columnspacing=2,
    )
    return figure


# The program


@program("--output build/figures", "--output build/figures --trials 1000000")
@click.option(
    "--trials",
    type=Whole(100),
    help="Simulated views for each measured point  [default: 200000; 2000 with --quick].",
)
def command(files: Files, trials: int | None, seed: int, quick: bool) -> None:
    """Compute all tables and figures about the number of messages.

    Takes under a minute.
    """
    if trials is None:
        trials = 2000 if quick else 200_000
    for name, text in _tables():
        files.text(name, text)
    with steps("counting messages", len(SIGMAS) * len(MODULI_BITS)) as step:
        users = grid(10, 10**9, 4 if quick else 30)
        figure = counts_figure(users, step)
    files.figure("message-counts", figure)
    weight = sum(_weight(n, m) for n, _, messages in EXPERIMENTS for m in messages)
    with steps("attacking", weight) as step:
        results = measure(trials, DeterministicRandom(seed), step)
    files.text("attack-advantage.csv", _advantage_csv(results))
    files.figure("attack-advantage", advantage_figure(results))


if __name__ == "__main__":
    main(command)
