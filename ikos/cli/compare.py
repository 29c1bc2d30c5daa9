"""``ikos compare``: the protocols for a private sum, of numbers or of vectors, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ikos.cli import release
from ikos.cli.errors import Command, in_options, problem
from ikos.cli.options import DOMAIN_KEYS, DOMAIN_OPTIONS, check_plot, domain_of, option, options
from ikos.cli.output import at_least, power_text, progress
from ikos.cli.types import TABLE, Honest, Whole
from ikos.results.report import Field, Report, values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ikos.baselines import ComparisonRow, Measurement

CONFIDENCE = 0.95
"""Confidence of the intervals of measured errors."""

_NEARLY = 1 - 1e-12  # so that 2 and a unit in the last place is printed as 2


def bound(value: float) -> str:
    """Return a bound to three digits, rounded up."""
    if math.isinf(value):
        return "no limit"
    value *= _NEARLY
    return f"{math.ceil(value):,}" if 1000 <= value < 10**6 else at_least(value, 3)


def count(value: float) -> str:
    """Return a number of messages or bits, to three digits if it is a mean."""
    return f"{value:,.0f}" if value == round(value) or value >= 1000 else f"{value:.3g}"


KEYS = [
    Field("users", "number of users"),
    Field("min_honest", "least number of honest users"),
    Field("epsilon", "epsilon of the guarantee"),
    Field("delta", "delta of the guarantee; 1/users^2 by default"),
    Field("overhead", "bytes by which each message grows on its way, or null"),
    *DOMAIN_KEYS,
    Field("data", "null, or with --data an object of file, column, out_of_range, runs (of each "
          "protocol), seed (null for secure randomness) and confidence (of the intervals)"),
    Field("plot", "the file written, or null"),
]  # fmt: skip

COLUMNS = [
    Field("key", "the protocol", "protocol", value="made.key"),
    Field("model", "whom users trust: central, shuffle or local", "model", value="made.spec.model"),
    Field("name", "the protocol in words", value="made.spec.name"),
    Field("source", "the paper", value="made.spec.source"),
    Field("trust", "a special assumption, or null", value="made.spec.note"),
    Field("messages_per_user", "null if the protocol is not possible", "messages", count,
          "made.messages", needed=True),
    Field("bits_per_user", "bits of each user; the mean if they vary", "bits", count, "made.bits"),
    Field("bytes_per_user", "the same in bytes, each message with --overhead more; null without it",
          "bytes", count),
    Field("mse", "bound on the mean squared error of the sum, in squared units", "MSE", bound,
          "made.mse"),
    Field("standard_error", "its root", "RMSE", value="made.rmse",
          text=lambda row: bound(row.made.rmse) if row.runs else ""),
    Field("mean_error", "the same, of the mean", "RMSE of mean", bound,
          lambda row: None if row.made.rmse is None else row.made.rmse / row.users),
    Field("influence", "greatest change of the sum by one dishonest user; null if unlimited",
          "one user", bound, "made.influence"),
    Field("unlimited", "whether there is no such limit",
          value=lambda row: row.made.protocol is not None and math.isinf(row.made.influence)),
    Field("guarantee", "epsilon, delta, theorem, conditions, adjacency", value="made.guarantee"),
    Field("measured", "with --data: root mean squared error of the runs, NOT private",
          "measured", count, "runs.rmse"),
    Field("low", "lower end of an approximate interval for it", "from", count,
          lambda row: row.runs and row.runs.interval(CONFIDENCE).low),
    Field("high", "upper end", "to", count,
          lambda row: row.runs and row.runs.interval(CONFIDENCE).high),
    Field("seconds", "of one run", "s/run", lambda value: f"{value:.2g}", "runs.seconds"),
    Field("errors", "of each run, NOT private", value="runs.errors"),
    Field("reason", "why the protocol is not possible, or did not run; or null"),
]  # fmt: skip

EXAMPLES = """\b
Examples
  ikos compare --users 10^4 --epsilon 1 --delta 1e-8
  ikos compare --data people.csv --column age \\
      --lower 0 --upper 100 --epsilon 1 --delta 1e-9
  ikos compare --users 10^4 --epsilon 1 --domain ball \\
      --dimension 64 --plot compare.png
"""

SECTIONS = {"users": "Compared", "domain": "Vectors", "file": "On data", "plot": "Output"}

RUNS = 20
OF_DATA = ("column", "no_header", "delimiter", "show_values", "on_out_of_range", "runs", "seed")
"""Parameters that concern data alone."""

LEGEND = (
    "MSE and RMSE: bounds on the mean squared error of the sum, whatever the values (of vectors, "
    "of its Euclidean distance), and on its root. One user: how much the messages of one dishonest "
    "user can change the sum. All in the data's units."
)
NOT_PRIVATE = "measured errors are differences from the true sum, and NOT private"
GAUSSIAN = (
    "A curator is not bound to Gaussian noise: where private-vector-sum has less error, a curator "
    "can add the same."
)


def _complete(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    from ikos.baselines import PROTOCOLS

    return [CompletionItem(one.key) for one in PROTOCOLS if one.key.startswith(begun)]


@dataclass
class Row:
    """A protocol of the library's comparison, with its runs on the data, if any."""

    made: ComparisonRow
    users: int
    overhead: int | None
    reason: str | None
    runs: Measurement | None = None

    @property
    def bytes_per_user(self) -> float | None:
        """What each user sends, with what each message grows by."""
        made = self.made
        if self.overhead is None or made.messages is None or made.bits is None:
            return None
        return math.ceil(made.bits / 8) + self.overhead * made.messages

    def __str__(self) -> str:
        """Return what people must know beyond the table."""
        spec = self.made.spec
        said = [f"{spec.key}: {spec.name} ({spec.source})", spec.note]
        if self.reason:
            how = "did not run" if self.made.protocol else "NOT possible here"
            said.append(f"{how}: {self.reason}")
        return "; ".join(filter(None, said))


@click.command(
    "compare", cls=Command, epilog=EXAMPLES, sections=SECTIONS, keys=KEYS, columns=COLUMNS
)
@option("--users", type=Whole(1, 10**9), help="Number of users; or give --data.")
@options("--min-honest", "--epsilon", required=("--epsilon",))
@option("--delta", show_default="1/users^2")
@option("--lower", show_default="0 without --data")
@option("--upper", show_default="1 without --data")
@option("--protocol", "protocols", multiple=True, metavar="NAME", show_default="all",
        shell_complete=_complete,
        help="Only this protocol, as the table calls it; can be given many times.")  # fmt: skip
@options(*DOMAIN_OPTIONS)
@option("--overhead")
@option("--data", "file", type=TABLE, metavar="TABLE",
        help="Also run every protocol on a column of a table, one row per user, and print its "
        "error, which is NOT private.")  # fmt: skip
@options("--column", "--no-header", "--delimiter", "--show-values", "--on-out-of-range")
@option("--runs", type=Whole(1, 10**6), show_default=str(RUNS),
        help="Runs of each protocol on the data.")  # fmt: skip
@option("--seed")
@option("--plot", help="Plot the errors against messages and bits, to a .png, .svg or .pdf.")
def command(
    domain: str | None, protocols: tuple[str, ...], plot: Path | None, **given: Any
) -> Report:
    """Compare all protocols for a private sum.

    For a number of users and the same guarantee for each: what each user sends, how far off the sum
    can be, and how much one dishonest user can change it. With --domain the sums are of vectors.
    With --data every protocol also runs on a column of values, and measured errors are shown next
    to predicted ones.
    """
    import numpy as np

    from ikos.baselines import comparison
    from ikos.results.sums import budget_warnings

    check_plot(plot)
    space, users = domain_of(domain, given), given["users"]
    epsilon, delta = given["epsilon"], given["delta"]
    column, data, warnings = None, None, []
    if given["file"] is None:
        for name in OF_DATA:
            if given[name] is not None and given[name] is not False:
                raise click.UsageError(f"--{name.replace('_', '-')} needs --data")
        if users is None:
            raise click.UsageError("give --users, or --data, a table with a row for each")
    else:
        if domain is not None or None in (given["column"], given["lower"], given["upper"]):
            raise click.UsageError("--data needs --column, --lower and --upper, and no --domain")
        given["runs"] = given["runs"] or RUNS
        source, truth = release.Source.taken(given), release.Truth()
        rule = release.Rule(given["lower"], given["upper"], given["on_out_of_range"] == "clamp")
        column = np.concatenate(release.blocks(truth.seen(source.values, rule)))
        data = {
            "file": source.file, "column": source.column,
            "out_of_range": given["on_out_of_range"] or "reject",
            "runs": given["runs"], "seed": given["seed"], "confidence": CONFIDENCE,
        }  # fmt: skip
        if users not in (None, column.size):
            raise click.UsageError(f"--users must be the {column.size} rows, got {users}")
        users, warnings = column.size, [NOT_PRIVATE]
        if truth.clamped:
            warnings.append(f"{truth.clamped:,} values were moved to the bounds")
    if delta is None and users == 1:
        raise click.UsageError("give --delta: for a single user there is no default")
    asked = SimpleNamespace(
        users=users, min_honest=Honest.of(given["min_honest"], users), epsilon=epsilon,
        delta=Fraction(1, users**2) if delta is None else delta, domain=space,
        dimension=space.dimension, overhead=given["overhead"], data=data, plot=plot,
    )  # fmt: skip
    with progress("choosing parameters") as shown:
        made = comparison(
            users, epsilon, asked.delta, domain=space, min_honest=asked.min_honest,
            overhead=given["overhead"], protocols=protocols or None, progress=shown,
        )  # fmt: skip
    reasons = (None if one.refusal is None else in_options(one.refusal) for one in made)
    rows = [Row(one, users, given["overhead"], why) for one, why in zip(made, reasons, strict=True)]
    if not any(one.protocol for one in made):
        why = "; ".join(f"{row.made.key}: {row.reason}" for row in rows)
        raise click.UsageError(f"no protocol is possible here: {why}")
    if column is not None:
        _measure(rows, column, given["runs"], given["seed"])
    title = (
        f"Protocols for the sum of {power_text(users)} {'vectors' if domain else 'values'} with "
        f"({float(epsilon):.6g}, {at_least(float(asked.delta))})-differential privacy"
    )
    if plot is not None:
        from ikos.plots import save
        from ikos.plots.protocols import protocols_figure

        measured = {row.made.key: row.runs for row in rows if row.runs is not None}
        save(protocols_figure(made, title, measured=measured or None), plot)

    notes = [LEGEND]
    if delta is None:
        notes.append("delta is 1/users^2, as --delta was not given.")
    if asked.min_honest < users:
        notes.append(f"While at least {asked.min_honest:,} of {users:,} users are honest.")
    if any(row.runs for row in rows):
        notes.append(
            "Measured, NOT private: root mean squared error of the sum, with an approximate "
            f"{CONFIDENCE * 100:g} % interval."
        )
    notes += [str(row) for row in rows] + [GAUSSIAN] * (domain is not None)
    warnings = budget_warnings(epsilon, asked.delta, users) + warnings
    return Report(title, COLUMNS, rows, notes, values(KEYS, asked), warnings)


def _measure(rows: Sequence[Row], column: NDArray[Any], runs: int, seed: int | None) -> None:
    """Run every protocol that is possible. Its draws do not depend on which others run."""
    from ikos.baselines import measure
    from ikos.testing import DeterministicRandom

    with progress("running") as shown:
        for done, row in enumerate(rows, 1):
            if row.made.protocol is not None:
                rng = None if seed is None else DeterministicRandom(seed)
                try:
                    row.runs = measure(row.made, column, runs, rng)
                except (ValueError, MemoryError) as error:
                    row.reason = problem(error)
            if shown is not None:
                shown(done, len(rows))
