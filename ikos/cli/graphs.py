"""``ikos graphs``: sample share graphs, and check the bounds on their number of components."""

from __future__ import annotations

from concurrent.futures import CancelledError
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli import types
from ikos.cli.errors import Command
from ikos.cli.options import CLEAR_SHARE, check_plot, connected, from_option, takes
from ikos.cli.output import at_least, at_most, complain, power_text, print_report, progress
from ikos.cli.types import Whole
from ikos.results.report import Field, Report, digits

if TYPE_CHECKING:
    from gmpy2 import mpfr
    from matplotlib.figure import Figure

    from ikos.graphs import ComponentCheck
    from ikos.graphs.check import ComponentRow


def _down(value: mpfr | None) -> float | None:
    from ikos.numeric.rounding import float_down

    return None if value is None else float_down(value)


def _up(value: mpfr | None) -> float | None:
    from ikos.numeric.rounding import float_up

    return None if value is None else float_up(value)


def _log10(value: mpfr | None) -> float | None:
    from ikos.numeric.rounding import log10

    return log10(value) if value else None


SMALLEST = 5e-324
"""The smallest double, to which upper bounds below it are rounded."""


def _upper(bound: float) -> str:
    return "< 5e-324" if bound == SMALLEST else at_least(bound)


KEYS = [
    Field("backend", "the method that counted the components"),
    Field("seed", "null for secure randomness"),
    Field("trials", "number of graphs requested"),
    Field("interrupted", "whether Ctrl-C ended it: the results cover the graphs drawn so far"),
    Field("plot", "the file that was plotted, or null"),
    Field("draw", "the file that a graph was drawn to, or null"),
    Field("users", "number of users"),
    Field("messages", "shuffled messages per user"),
    Field("shuffler", "parallel or single"),
    Field("clear_share", "whether a further message bypasses the shufflers"),
    Field("modulus", "q, a string of digits, or null"),
    Field("confidence", "confidence level of the intervals"),
    Field("sampled", "number of graphs drawn"),
    Field("holds", "whether all results are consistent"),
    Field("bounded", "whether the exact distribution is proved to be below all bounds, or above "
          "one; null if undecided, or none is stated"),
    Field("agrees", "whether the samples agree with the exact distribution; null without samples"),
    Field("fit", "upper bound on the p-value of the sampled graphs, or null"),
    Field("importance_fit", "upper bound on the p-value of the importance samples, or null"),
    Field("tally", "pairs: a number of components, and the number of sampled graphs with it"),
    Field("alone", "number of graphs in which a user was a component alone"),
    Field("unseen", "the smallest c that no sampled graph reached, or null"),
    Field("importance", "a list of at_least, trials, estimate, low and high: importance samples of "
          "P[C >= at_least]"),
    Field("excess", "with a modulus q, upper bound on E[q^C]/q - 1; null where none is known"),
    Field("excess_bound", "upper bound on it by Lemma C.5 of BBGN20, or null"),
]  # fmt: skip

COLUMNS = [
    Field("c", "number of components", "c"),
    Field("exact_low", "lower end of P[C = c]"),
    Field("exact_high", "upper end of P[C = c]", "exact", _upper),
    Field("exact_log10", "decimal logarithm of P[C = c], which may be below the range of doubles"),
    Field("lemma_c5", "upper bound by Lemma C.5 of BBGN20, or null", "Lemma C.5", _upper),
    Field("bound", "upper bound of this library, or null", "our bound", _upper),
    Field("bound_log10", "decimal logarithm of this library's bound"),
    Field("slack", "lower bound on the factor by which the exact value is below the smaller bound",
          "slack", at_most),
    Field("seen", "number of sampled graphs with c components", "graphs"),
    Field("low", "lower end of an interval for P[C = c]", "at least", at_most),
    Field("high", "upper end of that interval", "at most", at_least),
    Field("importance_low", "lower end of an interval by importance sampling, or null",
          "rare: at least", at_most),
    Field("importance_high", "upper end of that interval", "at most", _upper),
]  # fmt: skip

EXAMPLES = """\b
Examples
  ikos graphs --users 100 --messages 3 --trials 100000
  ikos graphs --users 100 --messages 4 --trials 10^5 \\
      --modulus 2^8 --workers 2 --plot components.png
  ikos graphs --users 12 --messages 2 --trials 1000 --draw graph.png
"""

SECTIONS = {"users": "The graphs", "largest": "The check", "workers": "Where to run",
            "plot": "Output"}  # fmt: skip
MOST = 1 << 50


@dataclass(frozen=True, kw_only=True)
class GraphsRequest:
    """Options of the command."""

    users: int = from_option(required=True, type=Whole(1))
    messages: int = from_option(
        required=True, type=Whole(1), show_default=None,
        help="Number of shuffled messages per user.")  # fmt: skip
    shuffler: str
    clear_share: bool = from_option(CLEAR_SHARE)
    trials: int = from_option(
        required=True, type=Whole(1, MOST), help="Number of graphs to sample, e.g. 10^6."
    )
    seed: int | None
    backend: str = from_option(
        type=click.Choice(["scipy", "networkx"]), default="scipy",
        help="Library that counts the components; networkx is the slow reference.")  # fmt: skip
    largest: int | None = from_option(
        type=Whole(1, 64), show_default="6", help="Largest number of components to compare."
    )
    planted: int | None = from_option(
        type=Whole(high=MOST), show_default="2000; fewer for large graphs",
        help="Number of importance samples, with planted components, for each number of "
        "components from 2.")  # fmt: skip
    modulus: int | None = from_option(
        show_default="none", help="Modulus q of the shares, to compare E[q^C] too."
    )
    confidence: float
    workers: int | None
    scheduler: str | None
    plot: Path | None = from_option(help="Plot the probabilities to a .png, .svg or .pdf file. "
                                     "Needs the extra 'plot'.")  # fmt: skip
    draw: Path | None = from_option(
        type=types.FILE, help="Draw one random graph of up to 100 users and 1,000 edges to a .png, "
        ".svg or .pdf file, a colour for each component.")  # fmt: skip

    def picture(self) -> Figure:
        """Return a drawing of one graph."""
        from ikos import graphs
        from ikos.plots.share_graph import MAX_DRAWN_EDGES, MAX_DRAWN_USERS, graph_figure
        from ikos.testing import DeterministicRandom

        if self.users > MAX_DRAWN_USERS or self.users * self.messages > MAX_DRAWN_EDGES:
            raise click.UsageError(
                f"--draw takes at most {MAX_DRAWN_USERS} users and {MAX_DRAWN_EDGES:,} edges, got "
                f"{self.users:,} and {self.users * self.messages:,}"
            )
        rng = None if self.seed is None else DeterministicRandom(self.seed)
        targets = graphs.sample_targets(self.users, self.messages, shuffler=self.shuffler, rng=rng)
        return graph_figure(graphs.multigraph(targets[0], clear_share=self.clear_share))

    def check(self) -> ComponentCheck:
        """Check the bounds."""
        from ikos import graphs
        from ikos.testing import DeterministicRandom

        running = connected(self.workers, self.scheduler)
        with running as cluster, progress("checking bounds") as shown:
            return graphs.check_components(
                self.users, self.messages, self.trials, q=self.modulus, shuffler=self.shuffler,
                clear_share=self.clear_share, largest=self.largest, planted=self.planted,
                confidence=self.confidence, backend=self.backend,
                rng=None if self.seed is None else DeterministicRandom(self.seed),
                executor=None if cluster is None else cluster.executor, progress=shown,
            )  # fmt: skip


def _row(row: ComponentRow) -> dict[str, Any]:
    """Return the values of a row, in doubles that are rounded outwards."""
    rare = row.planted
    return {
        "c": row.c, "exact_low": _down(row.exact.low), "exact_high": _up(row.exact.high),
        "exact_log10": _log10(row.exact.high), "lemma_c5": _up(row.lemma), "bound": _up(row.bound),
        "bound_log10": _log10(row.bound), "slack": row.slack, "seen": row.seen,
        "low": row.sampled.low, "high": row.sampled.high,
        "importance_low": None if rare is None else _down(rare.low),
        "importance_high": None if rare is None else _up(rare.high),
    }  # fmt: skip


def _data(request: GraphsRequest, check: ComponentCheck, interrupted: bool) -> dict[str, Any]:
    """Return the values of the keys."""
    graph, excess, published = check.graph, check.excess, check.excess_bound
    importance = [
        {"at_least": tally.parts, "trials": tally.trials, "estimate": tally.estimate}
        | dict(zip(("low", "high"), tally.interval(check.confidence), strict=True))
        for tally in check.planted
    ]
    return {
        "backend": request.backend, "seed": request.seed, "trials": request.trials,
        "interrupted": interrupted, "plot": None if interrupted else request.plot,
        "draw": None if interrupted else request.draw,
        "users": check.n, "messages": graph.m, "shuffler": graph.shuffler,
        "clear_share": graph.clear_share, "modulus": check.q and digits(check.q),
        "confidence": check.confidence, "sampled": check.tally.trials, "holds": check.holds,
        "bounded": check.bounded, "agrees": check.agrees, "fit": check.fit,
        "importance_fit": check.planted_fit, "tally": list(check.tally.counts.items()),
        "alone": check.tally.alone, "unseen": check.unseen if check.unseen <= check.n else None,
        "importance": importance, "excess": None if excess is None else _up(excess.high),
        "excess_bound": None if published is None else _up(published.high),
    }  # fmt: skip


@click.command(
    "graphs", cls=Command, epilog=EXAMPLES, sections=SECTIONS, columns=COLUMNS, keys=KEYS
)
@takes(GraphsRequest)
def command(request: GraphsRequest) -> None:
    """Check the random-graph bounds behind the proofs.

    The share graph joins users who hide each other; what it hides depends on its number C of
    connected components. The probability of C = 1, 2, ... is computed exactly and compared with
    its bounds, with sampled graphs, and with importance samples for values too rare to be seen.

    Ctrl-C prints the results so far, once the exact distribution is known.
    """
    check_plot(request.plot)
    check_plot(request.draw, "--draw")
    if request.draw is not None and request.draw == request.plot:
        raise click.UsageError(f"--draw and --plot must be different files, got {request.draw}")
    figures = [] if request.draw is None else [(request.picture(), request.draw)]
    context, stopped = click.get_current_context(), None
    try:
        check = request.check()
    except KeyboardInterrupt as stop:
        if getattr(stop, "partial", None) is None:
            raise
        check, stopped = stop.partial, str(stop)  # type: ignore[attr-defined]
    except CancelledError:
        raise click.UsageError("the connection to the scheduler was lost") from None
    if stopped is None and request.plot is not None:
        from ikos.plots.components import components_figure

        figures.append((components_figure(check), request.plot))
    for figure, path in figures if stopped is None else ():
        from ikos.plots import save

        save(figure, path)
    print_report(_report(check, _data(request, check, stopped is not None)))
    if stopped is not None:
        complain(context.command_path, "error", stopped)
        context.exit(130)
    if not check.holds:
        samples = "the samples contradict the exact distribution"
        reason = "a bound does not hold" if check.bounded is False else samples
        complain(context.command_path, "error", f"the check failed: {reason}")
        context.exit(1)


def _report(check: ComponentCheck, data: dict[str, Any]) -> Report:
    """Return the results of a check."""
    from ikos.results.text import percent

    graph, sampled = check.graph, check.tally.trials
    title = (
        f"The number of components C of {sampled:,} random share graph{'s' * (sampled != 1)}: "
        f"{check.n:,} user{'s' * (check.n != 1)}, {graph.m:,} shuffled "
        f"message{'s' * (graph.m != 1)} per user ({graph.shuffler}), {int(graph.clear_share)} clear"
    )
    notes = [*check.verdict]
    if sampled:
        notes.append(
            "graphs: the number with c components, and an interval for P[C = c] with "
            f"{percent(check.confidence)} confidence; rare: the same by importance sampling."
        )
    if check.q is not None:
        bounds = "is not computed"
        if check.excess is not None:
            bounds = f"is at most {check.excess.high:.3Ug}"
        if check.excess_bound is not None:
            bounds += f" (by Lemma C.5: {check.excess_bound.high:.3Ug})"
        notes.append(f"E[q^C]/q - 1 {bounds} for q = {power_text(check.q)}.")
    return Report(title, COLUMNS, [*map(_row, check.rows)], notes, data)
