"""``ikos graphs``: sample share graphs, and check the bounds on their number of components."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.errors import Command
from ikos.cli.options import check_plot, connected, option, options
from ikos.cli.output import at_least, at_most, complain, power_text, print_report, progress
from ikos.cli.types import Whole
from ikos.results.report import Field, Report, digits, values

if TYPE_CHECKING:
    from gmpy2 import mpfr

    from ikos.graphs import ComponentCheck


def _down(value: mpfr | None) -> float | None:
    from ikos.numeric.rounding import float_down

    return None if value is None else float_down(value)


def _up(value: mpfr | None) -> float | None:
    from ikos.numeric.rounding import float_up

    return None if value is None else float_up(value)


def _upper(key: str, meaning: str, title: str, get: Callable[[Any], Any]) -> Field:
    """Return a column of upper bounds, which may be below the range of doubles."""

    def text(row: Any) -> str:
        tiny = 0 < get(row) < Fraction(49, 10**325)
        return "< 4.9e-324" if tiny else at_least(field.of(row))

    field = Field(key, meaning, title, value=lambda row: _up(get(row)), text=text)
    return field


def _log10(value: mpfr | None) -> float | None:
    from ikos.numeric.rounding import log10

    return log10(value) if value else None


def _importance(check: ComponentCheck) -> list[dict[str, Any]]:
    """Return the results of the importance samples, for JSON."""
    return [
        {"at_least": tally.parts, "trials": tally.trials, "estimate": tally.estimate}
        | dict(zip(("low", "high"), tally.interval(check.confidence), strict=True))
        for tally in check.planted
    ]


ASKED_KEYS = [
    Field("backend", "the method that counted the components"),
    Field("seed", "null for secure randomness"),
    Field("trials", "number of graphs requested"),
    Field("interrupted", "whether Ctrl-C ended it: the results cover the graphs drawn so far"),
    Field("plot", "the file written, or null"),
]

CHECK_KEYS = [
    Field("users", "number of users", value="n"),
    Field("messages", "shuffled messages of each user", value="graph.m"),
    Field("shuffler", "parallel or single", value="graph.shuffler"),
    Field("clear_share", "whether a further message bypasses the shufflers",
          value="graph.clear_share"),
    Field("modulus", "q, a string of digits, or null",
          value=lambda check: check.q and digits(check.q)),
    Field("confidence", "of the intervals"),
    Field("sampled", "number of graphs drawn", value="tally.trials"),
    Field("holds", "whether all results are consistent"),
    Field("bounded", "whether the exact distribution is proved to be below all bounds, or above "
          "one; null if undecided, or none is stated"),
    Field("agrees", "whether the samples agree with the exact distribution; null without samples"),
    Field("fit", "upper bound of the p-value of the sampled graphs, or null"),
    Field("importance_fit", "the same of the importance samples", value="planted_fit"),
    Field("tally", "pairs: a number of components, and the number of sampled graphs with it",
          value=lambda check: list(check.tally.counts.items())),
    Field("alone", "number of graphs in which a user was a component alone", value="tally.alone"),
    Field("unseen", "the smallest c that no sampled graph reached, or null",
          value=lambda check: check.unseen if check.unseen <= check.n else None),
    Field("importance", "a list of at_least, trials, estimate, low and high: importance samples of "
          "P[C >= at_least]", value=_importance),
    Field("excess", "with a modulus q, upper bound of E[q^C]/q - 1; null where none is known",
          value=lambda check: _up(check.excess and check.excess.high)),
    Field("excess_bound", "the same by Lemma C.5 of BBGN20",
          value=lambda check: _up(check.excess_bound and check.excess_bound.high)),
]  # fmt: skip

COLUMNS = [
    Field("c", "components", "c"),
    Field("exact_low", "lower end of P[C = c]", value=lambda row: _down(row.exact.low)),
    _upper("exact_high", "upper end of it", "exact", lambda row: row.exact.high),
    Field("exact_log10", "decimal logarithm of it, for what doubles do not hold",
          value=lambda row: _log10(row.exact.high)),
    _upper("lemma_c5", "upper bound by Lemma C.5 of BBGN20, or null", "Lemma C.5",
           lambda row: row.lemma),
    _upper("bound", "upper bound of this library, or null", "our bound", lambda row: row.bound),
    Field("bound_log10", "decimal logarithm of it", value=lambda row: _log10(row.bound)),
    Field("slack", "by what factor the exact value is below the smaller bound, at least",
          "slack", at_most),
    Field("seen", "how many sampled graphs had c components", "graphs"),
    Field("low", "lower end of an interval for P[C = c]", "at least", at_most, "sampled.low"),
    Field("high", "upper end", "at most", at_least, "sampled.high"),
    Field("importance_low", "the same by importance sampling, or null", "rare: at least",
          at_most, lambda row: _down(row.planted and row.planted.low)),
    _upper("importance_high", "upper end", "at most", lambda row: row.planted and row.planted.high),
]  # fmt: skip

EXAMPLES = """\b
Examples
  ikos graphs --users 100 --messages 3 --trials 100000
  ikos graphs --users 100 --messages 4 --trials 10^5 \\
      --modulus 2^8 --workers 2 --plot components.png
"""

SECTIONS = {"users": "The graphs", "largest": "The check", "workers": "Where to run",
            "plot": "Output"}  # fmt: skip
MOST = 1 << 50


@click.command(
    "graphs", cls=Command, epilog=EXAMPLES, sections=SECTIONS, columns=COLUMNS,
    keys=[*ASKED_KEYS, *CHECK_KEYS],
)  # fmt: skip
@option("--users", required=True, type=Whole(1))
@option("--messages", required=True, type=Whole(1), show_default=None,
        help="Shuffled messages of each.")  # fmt: skip
@options("--shuffler", "--clear-share/--no-clear-share")
@option("--trials", required=True, type=Whole(1, MOST), help="Graphs to sample, e.g. 10^6.")
@option("--seed", help="Sample the same graphs each time; any number.")
@option("--backend", type=click.Choice(["scipy", "networkx"]), default="scipy",
        help="What counts the components; networkx is the slower reference.")  # fmt: skip
@option("--largest", type=Whole(1, 64), show_default="6",
        help="Largest number of components to compare.")  # fmt: skip
@option("--planted", type=Whole(high=MOST), show_default="2000, of large graphs fewer",
        help="Importance samples, with components planted, for each number of components from 2 "
        "on.")  # fmt: skip
@option("--modulus", show_default=None, help="Compare E[q^C] too, for this order q of the group.")
@options("--confidence")
@options("--workers", "--scheduler")
@option("--plot", help="Plot the probabilities, to a .png, .svg or .pdf.")
def command(plot: Path | None, **given: Any) -> None:
    """Sample share graphs and check the bounds of their components.

    The share graph joins users who hide each other; what it hides depends on its number C of
    connected components. The probability of C = 1, 2, ... is computed exactly and compared with
    its bounds, with sampled graphs, and with importance samples for values that are too rare to be
    seen.

    Ctrl-C prints what was found so far, once the exact distribution is known.
    """
    from ikos import graphs
    from ikos.testing import DeterministicRandom

    check_plot(plot)
    trials, seed, stopped = given.pop("trials"), given.pop("seed"), None
    running = connected(given.pop("workers"), given.pop("scheduler"))
    try:
        with running as cluster, progress("checking bounds") as shown:
            check = graphs.check_components(
                given.pop("users"), given.pop("messages"), trials, q=given.pop("modulus"),
                rng=None if seed is None else DeterministicRandom(seed),
                executor=None if cluster is None else cluster.executor, progress=shown, **given,
            )  # fmt: skip
    except KeyboardInterrupt as stop:
        if getattr(stop, "partial", None) is None:
            raise
        check, stopped = stop.partial, str(stop)  # type: ignore[attr-defined]
    except CancelledError:
        raise click.UsageError("the connection to the scheduler was lost") from None
    if plot is not None and stopped is None:
        from ikos.plots import save
        from ikos.plots.components import components_figure

        save(components_figure(check), plot)
    asked = {
        "backend": given["backend"], "seed": seed, "trials": trials,
        "plot": None if stopped else plot, "interrupted": stopped is not None,
    }  # fmt: skip
    print_report(_report(check, asked))
    why = "the samples contradict the exact distribution"
    failed = f"the check failed: {'a bound' if check.bounded is False else why}"
    if stopped is not None or not check.holds:
        context = click.get_current_context()
        complain(context.command_path, "error", failed if stopped is None else stopped)
        context.exit(1 if stopped is None else 130)


def _report(check: ComponentCheck, asked: dict[str, Any]) -> Report:
    """Return the results of a check."""
    from ikos.results.text import percent

    graph, sampled = check.graph, check.tally.trials
    title = (
        f"The number of components C of {sampled:,} random share graph{'s' * (sampled != 1)}: "
        f"{check.n:,} user{'s' * (check.n != 1)}, "
        f"{graph.m:,} shuffled message{'s' * (graph.m != 1)} of each ({graph.shuffler}), "
        f"{int(graph.clear_share)} clear"
    )
    notes = [*check.verdict]
    if sampled:
        notes.append(
            f"graphs: how many had c components, and the interval for P[C = c] with "
            f"{percent(check.confidence)} confidence; rare: the same by importance sampling."
        )
    if check.q is not None:
        known = "is not computed"
        if check.excess is not None:
            known = f"is at most {check.excess.high:.3Ug}"
        if check.excess_bound is not None:
            known += f" (by Lemma C.5: {check.excess_bound.high:.3Ug})"
        notes.append(f"E[q^C]/q - 1 {known} for q = {power_text(check.q)}.")
    return Report(title, COLUMNS, check.rows, notes, asked | values(CHECK_KEYS, check))
